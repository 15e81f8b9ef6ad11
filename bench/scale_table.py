#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/scale.md, each number as `duoka plan` prints it.

    bench/scale_table.py --write     puts them into the page
    bench/scale_table.py --check     says where the page differs, and fails (a test does this)

The program is that of $DUOKA_BINARY, else build/release/bin/duoka.
"""
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "scale.md"
DUOKA = os.environ.get("DUOKA_BINARY", ROOT / "build/release/bin/duoka")
LINKS = "450,50"
COMMON = ["bf16=true", "per_device_train_batch_size=1"]
FULL, LORA = ["finetuning_type=full"], ["finetuning_type=lora", "lora_rank=16"]
AGAIN = ["gradient_checkpointing=true"]


def zero(stage, shard=0):
    return [f"zero_stage={stage}"] + ([f"zero_shard_size={shard}"] if shard else [])


def grid(tensor=1, pipeline=1, context=1, accumulation=1):
    sizes = {"tensor_parallel_size": tensor, "pipeline_parallel_size": pipeline, "context_parallel_size": context,
             "gradient_accumulation_steps": accumulation}
    return [f"{key}={value}" for key, value in sizes.items() if value > 1]


# Model: its rows of so many tokens, and (cards, keys) of each line.
TABLES = {
    "llama-2-7b": (4096, [
        (8, LORA), (8, FULL + zero(1)), (8, FULL + zero(3)), (64, FULL + zero(3)), (64, FULL + zero(3, 8)),
        (512, FULL + zero(1)), (512, FULL + zero(3, 8)), (4096, FULL + zero(3, 8)), (4096, FULL + zero(1, 64))]),
    "llama-3-70b": (8192, [
        (8, LORA + zero(3) + AGAIN), (8, LORA + grid(tensor=8)), (64, FULL + zero(3) + AGAIN), (64, FULL + zero(3) + grid(tensor=8)),
        (512, FULL + zero(3) + AGAIN), (512, FULL + zero(1) + grid(8, 4, accumulation=32)),
        (4096, FULL + zero(3, 64) + AGAIN), (4096, FULL + zero(1) + grid(8, 4, accumulation=32)),
        (4096, FULL + zero(1) + grid(8, 8, accumulation=32))]),
    "llama-3.1-405b": (8192, [
        (64, LORA + zero(3) + AGAIN), (64, LORA + grid(8, 8, accumulation=32)), (512, FULL + zero(3) + grid(8) + AGAIN),
        (512, FULL + zero(1) + grid(8, 16, accumulation=64) + AGAIN), (4096, FULL + zero(3) + grid(8)),
        (4096, FULL + zero(1) + grid(8, 16, accumulation=64)), (4096, FULL + zero(1) + grid(8, 16, context=2, accumulation=64))]),
}


def command(model, tokens, cards, keys):
    words = ["plan", "--model", f"docs/scale/{model}", "--cards", str(cards)]
    if cards > 8:
        words += ["--hosts", str(cards // 8)]
    return words + ["--link-gb-s", LINKS, f"cutoff_len={tokens}", *COMMON, *keys]


def plan(model, tokens, cards, keys):
    done = subprocess.run([DUOKA, *command(model, tokens, cards, keys)], cwd=ROOT, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command(model, tokens, cards, keys))}\n{done.stderr}")
    return done.stdout


def last_numbers(out, label):
    """The numbers behind `label` at the beginning of a line."""
    found = re.search(rf"^  {label} +(.*)$", out, re.M)
    return found.group(1).split() if found else []


def line(model, tokens, cards, keys):
    out = plan(model, tokens, cards, keys)
    layout = re.search(r"^[\d,]+ cards? on [\d,]+ hosts?: (.*)$", out, re.M).group(1)
    what = "LoRA" if LORA[0] in keys else "full"
    if AGAIN[0] in keys:
        what += ", again"
    rows = re.search(r"^an update: ([\d,]+) rows?", out, re.M).group(1)
    memory = max(last_numbers(out, "together, about"), key=float)
    between = last_numbers(out, r"together between hosts \*") or ["–", "–"]
    inside = last_numbers(out, "together inside a host") or last_numbers(out, "together")
    idle = re.search(r"^idle in the pipeline: ([\d.]+ %)", out, re.M)
    cells = [f"{cards:,}", what, layout, rows, memory, *between, *inside, idle.group(1) if idle else "–"]
    return "| " + " | ".join(cells) + " |"


def table(model):
    tokens, cases = TABLES[model]
    head = ["cards", "trains", "layout", "rows", "GiB a card", "GiB between", "s", "GiB inside", "s", "idle"]
    return "\n".join(["| " + " | ".join(head) + " |", "| " + " | ".join(["---"] * len(head)) + " |",
                      *[line(model, tokens, cards, keys) for cards, keys in cases]])


def example():
    tokens, cases = TABLES["llama-3-70b"]
    cards, keys = cases[5]
    words = ["duoka", *command("llama-3-70b", tokens, cards, keys)]
    lines = [" ".join(words[:8]) + " \\", "    " + " ".join(words[8:14]) + " \\", "    " + " ".join(words[14:]), ""]
    lines += plan("llama-3-70b", tokens, cards, keys).splitlines()
    return "\n".join("    " + line if line else "" for line in lines)


def blocks():
    return {"example": example(), **{model: table(model) for model in TABLES}}


def main():
    page = PAGE.read_text(encoding="utf8")
    wanted = page
    for name, block in blocks().items():
        marks = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
        begin, end = wanted.index(marks[0]) + len(marks[0]), wanted.index(marks[1])
        wanted = wanted[:begin] + block + wanted[end:]
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(wanted, encoding="utf8")
    elif sys.argv[1:] != ["--check"]:
        sys.exit(__doc__)
    elif wanted != page:
        differ = [(a, b) for a, b in zip(page.splitlines(), wanted.splitlines()) if a != b]
        sys.exit("docs/scale.md is not what duoka plan prints; run bench/scale_table.py --write\n" +
                 "\n".join(f"page: {a}\nplan: {b}" for a, b in differ))


main()
