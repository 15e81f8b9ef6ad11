# SPDX-License-Identifier: Apache-2.0
"""Transformers' Trainer (peft's adapters, Accelerate, gloo), and TRL's SFTTrainer with packing."""
import batch
import task as shared
import torch
from transformers import Trainer, TrainerCallback, TrainingArguments


class Clock(TrainerCallback):
    """Notes when updates end, and what the trainer logs. Rows in order: their tokens are known beforehand; packed ones are
    counted by TRL."""

    def __init__(self, task: shared.Task, record: shared.Record, is_packed: bool):
        self.task, self.record, self.is_packed, self.total = task, record, is_packed, 0

    def on_step_end(self, _args, state, _control, **_kwargs):
        rows = [] if self.is_packed else self.task.rows_of(state.global_step - 1)
        self.record.end_update(shared.num_tokens(rows))

    def on_log(self, _args, _state, _control, logs=None, **_kwargs):
        if "loss" not in logs:
            return
        self.record.losses.append(float(logs["loss"]))
        if self.is_packed:
            self.record.tokens[-1], self.total = int(logs["num_tokens"]) - self.total, int(logs["num_tokens"])


class InOrder(Trainer):
    def _get_train_sampler(self, *_args, **_kwargs):
        return torch.utils.data.SequentialSampler(self.train_dataset)


def arguments(task: shared.Task) -> dict:
    return {"output_dir": task.out + ".trainer", "max_steps": task.updates, "per_device_train_batch_size": task.micro,
            "gradient_accumulation_steps": task.accumulation, "learning_rate": task.learning_rate,
            "lr_scheduler_type": "constant", "weight_decay": 0.0, "max_grad_norm": batch.MAX_GRAD_NORM, "logging_steps": 1,
            "report_to": [], "save_strategy": "no", "use_cpu": True, "bf16": task.bf16, "disable_tqdm": True,
            "gradient_checkpointing": False, "dataloader_num_workers": 0, "ddp_backend": "gloo" if task.ranks > 1 else None}


def padded(task: shared.Task) -> Trainer:
    return InOrder(model=batch.causal_lm(task, torch.float32), args=TrainingArguments(**arguments(task)),
                   train_dataset=task.rows, data_collator=batch.pad)


def packed(task: shared.Task) -> Trainer:
    """A pack is a row of up to `cutoff` tokens, so a micro-batch of half as many packs as rows has about as many tokens."""
    from datasets import Dataset
    from transformers import AutoTokenizer
    from trl import SFTConfig, SFTTrainer
    options = {**arguments(task), "per_device_train_batch_size": max(1, task.micro // 2)}
    return SFTTrainer(model=batch.causal_lm(task, torch.float32), processing_class=AutoTokenizer.from_pretrained(task.model),
                      args=SFTConfig(packing=True, max_length=task.cutoff, **options),
                      train_dataset=Dataset.from_list(task.rows))


def main() -> None:
    task, record = shared.read(), shared.Record()
    is_packed = task.variant == "trl"
    trainer = (packed if is_packed else padded)(task)
    trainer.add_callback(Clock(task, record, is_packed))
    trainer.train()
    record.write(task.out)


main()
