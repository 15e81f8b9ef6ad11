# SPDX-License-Identifier: Apache-2.0
"""What the peers' programs share: the task that bench/peers hands them (one JSON file) and the record they hand back."""
import json
import os
import sys
import time
from dataclasses import dataclass, field

@dataclass
class Task:
    variant: str
    model: str  # a Hugging Face folder in f32
    adapter: str  # the adapter that LoRA starts from; empty: the whole model trains
    gguf: str  # the model in f32 for llama.cpp
    bf16: bool
    ranks: int
    threads: int
    micro: int  # rows of a micro-batch
    accumulation: int  # micro-batches of an update on each rank
    updates: int
    cutoff: int
    learning_rate: float
    out: str  # where the record goes
    rows: list[dict]  # {"input_ids", "labels"}, those of all updates in order

    def rows_of(self, update: int) -> list[dict]:
        size = self.micro * self.accumulation * self.ranks
        return self.rows[update * size:(update + 1) * size]


@dataclass
class Record:
    times: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)

    def write(self, path: str) -> None:
        if int(os.environ.get("RANK", "0")) == 0:
            with open(path, "w", encoding="utf8") as out:
                json.dump(vars(self), out)

    def end_update(self, tokens: int) -> None:
        self.times.append(time.time())
        self.tokens.append(tokens)


def num_tokens(rows: list[dict]) -> int:
    return sum(len(row["input_ids"]) for row in rows)


def num_trained(rows: list[dict]) -> int:
    return sum(label != -100 for row in rows for label in row["labels"])


def read() -> Task:
    with open(sys.argv[1], encoding="utf8") as task:
        return Task(**json.load(task))
