# SPDX-License-Identifier: Apache-2.0
"""What the programs on PyTorch share: the model to train, a padded batch, AdamW's numbers."""
import torch
from peft import PeftModel
from task import Task
from transformers import AutoModelForCausalLM

ADAMW = {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0}
MAX_GRAD_NORM = 1.0
PADDING = 2


def causal_lm(task: Task, dtype: torch.dtype):
    """The model with weights of `dtype`; with the adapter in f32 on it, where there is one."""
    model = AutoModelForCausalLM.from_pretrained(task.model, dtype=dtype)
    if not task.adapter:
        return model
    return PeftModel.from_pretrained(model, task.adapter, is_trainable=True)


def pad(rows: list[dict]) -> dict[str, torch.Tensor]:
    """A batch as long as its longest row."""
    length = max(len(row["input_ids"]) for row in rows)

    def filled(name: str, filling: int) -> torch.Tensor:
        return torch.tensor([row[name] + [filling] * (length - len(row[name])) for row in rows])

    ids = filled("input_ids", PADDING)
    lengths = torch.tensor([len(row["input_ids"]) for row in rows])
    return {"input_ids": ids, "labels": filled("labels", -100),
            "attention_mask": (torch.arange(length) < lengths[:, None]).long()}
