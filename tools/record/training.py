# SPDX-License-Identifier: Apache-2.0
"""The first 20 losses of SmolLM2-135M-Instruct in f32, by a plain PyTorch loop over transformers and peft.

Two runs on the same batches: LoRA on every linear module, and full fine-tuning. Token ids and labels are stored, so
that a test compares the mathematics of training alone. Reads .assets/hf-smollm2 (see hf_smollm2.py) and
tests/fixtures/define_words.jsonl; writes tests/fixtures/golden/training.json.
Usage: python -P training.py [ROOT]   (-P: files beside this one have names of packages)
"""

import json
import os
import sys

import peft
import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer, get_scheduler

SEED = 11
STEPS = 20
ROWS_PER_STEP = 2
COMMON = {"lr_scheduler_type": "cosine", "warmup_steps": 2, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8,
          "weight_decay": 0.1, "max_grad_norm": 1.0}
RUNS = {"lora": {"learning_rate": 1e-3, "rank": 4, "alpha": 8}, "full": {"learning_rate": 5e-5}}


def read_rows(root: str, tokenizer) -> list:
    rows = []
    with open(os.path.join(root, "tests/fixtures/define_words.jsonl"), encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            prompt = f"<|im_start|>user\n{row['instruction']}\n{row['input']}<|im_end|>\n<|im_start|>assistant\n"
            ids = tokenizer(prompt)["input_ids"]
            reply = tokenizer(row["output"] + "<|im_end|>")["input_ids"]
            rows.append({"ids": ids + reply, "labels": [-100] * len(ids) + reply})
    return rows


def first_a(module: int, rank: int, width: int) -> torch.Tensor:
    """A start for A that any language can make bit for bit: a multiplicative hash of the element's number."""
    number = torch.arange(rank * width, dtype=torch.int64) + module * 1_000_003 + SEED
    hashed = (number * 2654435761) % 2**32
    return ((hashed.double() / 2**32 - 0.5) * (2 / width**0.5)).float().view(rank, width)


def add_adapters(model, rank: int, alpha: float):
    config = peft.LoraConfig(r=rank, lora_alpha=alpha, lora_dropout=0.0, target_modules="all-linear",
                             task_type="CAUSAL_LM")
    model = peft.get_peft_model(model, config)
    module = 0
    for name, parameter in model.named_parameters():
        if "lora_A" in name:
            parameter.data.copy_(first_a(module, *parameter.shape))
            module += 1
    return model


def optimizer_of(model, run: dict):
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    decayed = [p for name, p in trained.items() if "norm" not in name and not name.endswith("bias")]
    others = [p for name, p in trained.items() if "norm" in name or name.endswith("bias")]
    groups = [{"params": decayed, "weight_decay": COMMON["weight_decay"]}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=run["learning_rate"], betas=(COMMON["beta1"], COMMON["beta2"]),
                             eps=COMMON["epsilon"])


def train(model, rows: list, run: dict) -> dict:
    model.train()
    optimizer = optimizer_of(model, run)
    schedule = get_scheduler(COMMON["lr_scheduler_type"], optimizer, num_warmup_steps=COMMON["warmup_steps"],
                             num_training_steps=STEPS)
    trained = [p for p in model.parameters() if p.requires_grad]
    losses, norms, rates = [], [], []
    for step in range(STEPS):
        batch = rows[step * ROWS_PER_STEP:(step + 1) * ROWS_PER_STEP]
        # A row's first label is no target.
        num_trained = sum(label != -100 for row in batch for label in row["labels"][1:])
        loss = 0.0
        for row in batch:
            logits = model(input_ids=torch.tensor([row["ids"]])).logits[0, :-1]
            share = torch.nn.functional.cross_entropy(logits, torch.tensor(row["labels"][1:]), reduction="sum")
            (share / num_trained).backward()
            loss += share.item() / num_trained
        norms.append(torch.nn.utils.clip_grad_norm_(trained, COMMON["max_grad_norm"]).item())
        rates.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss)
        print(step + 1, loss, norms[-1], flush=True)
    return {**run, "losses": losses, "grad_norms": norms, "learning_rates": rates}


def main(root: str) -> None:
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", 1)))
    path = os.path.join(root, ".assets/hf-smollm2")
    rows = read_rows(root, AutoTokenizer.from_pretrained(path))
    runs = {}
    for name, run in RUNS.items():
        torch.manual_seed(SEED)
        model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager")
        # The pad token of this model is <|im_end|>, which the rows hold: with a padding_idx torch would leave it out of
        # the embedding's gradient, though it is a token like any other here.
        model.model.embed_tokens.padding_idx = None
        if name == "lora":
            model = add_adapters(model, run["rank"], run["alpha"])
        runs[name] = train(model, rows, run)
    record = {"made_by": "tools/record/training.py", "model": "SmolLM2-135M-Instruct.Q4_1.gguf",
              "versions": {"torch": torch.__version__, "transformers": transformers.__version__,
                           "peft": peft.__version__},
              "seed": SEED, "rows_per_step": ROWS_PER_STEP, **COMMON, "runs": runs, "rows": rows}
    with open(os.path.join(root, "tests/fixtures/golden/training.json"), "w") as file:
        json.dump(record, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else ".")
