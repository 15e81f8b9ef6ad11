# SPDX-License-Identifier: Apache-2.0
"""One rank of the peer: Transformers' Trainer with a peft LoRA under torch.distributed (gloo).

Started by compare_trainer.py through torchrun; prints one JSON line from rank 0.
"""
import argparse
import json
import time

import torch
from peft import LoraConfig, get_peft_model
from transformers import (AutoModelForCausalLM, AutoTokenizer, DataCollatorForSeq2Seq, Trainer, TrainerCallback,
                          TrainingArguments)

arguments = argparse.ArgumentParser()
for name in ("model", "data", "out"):
    arguments.add_argument("--" + name, required=True)
for name in ("rows", "steps", "micro", "accumulation", "cutoff"):
    arguments.add_argument("--" + name, type=int, required=True)
arguments.add_argument("--began", type=float, required=True)
arguments.add_argument("--bf16", action="store_true")
a = arguments.parse_args()


class Clock(TrainerCallback):
    def __init__(self):
        self.times, self.losses = [], []

    def on_step_end(self, *_args, **_kwargs):
        self.times.append(time.time())

    def on_log(self, _args, _state, _control, logs=None, **_kwargs):
        if logs and "loss" in logs:
            self.losses.append(logs["loss"])


class InOrder(Trainer):
    def _get_train_sampler(self, *_args, **_kwargs):
        return torch.utils.data.SequentialSampler(self.train_dataset)


def encode(tokenizer, row):
    user = {"role": "user", "content": row["instruction"] + "\n" + row["input"]}
    prompt = tokenizer.apply_chat_template([user], add_generation_prompt=True, tokenize=False)
    answer = row["output"] + "<|im_end|>"
    left = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    right = tokenizer(answer + "\n", add_special_tokens=False)["input_ids"]
    labels = [-100] * len(left) + right[:-1] + [-100]
    return {"input_ids": (left + right)[: a.cutoff], "labels": labels[: a.cutoff]}


tokenizer = AutoTokenizer.from_pretrained(a.model)
with open(a.data, encoding="utf8") as lines:
    rows = [encode(tokenizer, json.loads(line)) for line, _ in zip(lines, range(a.rows))]
model = AutoModelForCausalLM.from_pretrained(a.model, dtype=torch.float32)
model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, lora_dropout=0, target_modules="all-linear",
                                         task_type="CAUSAL_LM"))
clock = Clock()
trainer = InOrder(
    model=model,
    args=TrainingArguments(output_dir=a.out, max_steps=a.steps, per_device_train_batch_size=a.micro,
                           gradient_accumulation_steps=a.accumulation, learning_rate=4e-4, lr_scheduler_type="constant",
                           logging_steps=1, report_to=[], save_strategy="no", use_cpu=True, bf16=a.bf16, disable_tqdm=True,
                           dataloader_num_workers=0, ddp_backend="gloo"),
    train_dataset=rows,
    data_collator=DataCollatorForSeq2Seq(tokenizer, padding=True),
    callbacks=[clock])
trainer.train()
if trainer.args.process_index == 0:
    print("RESULT " + json.dumps({
        "first_step_seconds": clock.times[0] - a.began,
        "seconds": clock.times[-1] - clock.times[0],
        "tokens": sum(len(row["input_ids"]) for row in rows),
        "steps": len(clock.times), "losses": clock.losses}), flush=True)
