# SPDX-License-Identifier: Apache-2.0
"""Memory of one row as it gets longer: an update of SmolLM2-135M, LoRA in bf16, on one row of each length, one rank. Prints the peak of
resident memory (VmHWM), the line that fits it, and what would not be on it: scores (heads x N x N) for their square, logits
(N x vocabulary) for what they add to what layers save by the formulas of `duoka plan`. Exit code 1 where either could be there.

    bench/long_row [--lengths 2048,4096,8192,16384] [--recompute]        # the longest takes minutes on two cores
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

from measure import DUOKA, MODEL, ROWS, Failed, Training, folder_for_a_while, make_model, run_duoka

GIB = 2**30
BF16 = 2  # bytes


def write_row(folder: str, tokens: int) -> str:
    """A row of one text that has more tokens than that."""
    characters_a_token = 8  # about five in English
    words, length = [], 0
    with open(ROWS, encoding="utf8") as source:
        while length < tokens * characters_a_token:
            line = source.readline() or (source.seek(0), source.readline())[1]
            words.append(json.loads(line)["output"])
            length += len(words[-1])
    row = pathlib.Path(folder, f"row-{tokens}.jsonl")
    row.write_text(json.dumps({"text": ". ".join(words)}) + "\n", encoding="utf8")
    return str(row)


def layout_keys(tokens: int, recompute: bool) -> list[str]:
    """What training and plan both go by."""
    return [f"model_name_or_path={MODEL}", "finetuning_type=lora", "bf16=true", f"cutoff_len={tokens}",
            "per_device_train_batch_size=1", f"gradient_checkpointing={str(recompute).lower()}"]


def train(folder: str, tokens: int, recompute: bool) -> Training:
    keys = layout_keys(tokens, recompute) + [f"dataset={write_row(folder, tokens)}", f"cache_dir={folder}/cache", "stage=pt",
                                             "max_steps=1", "learning_rate=1e-4", "plot_loss=false"]
    training = run_duoka(keys, 1, len(os.sched_getaffinity(0)), folder, time_limit=7200)
    if training.tokens != [tokens]:
        raise Failed(f"the row had {training.tokens} tokens; wanted {tokens}")
    return training


def planned_bytes(tokens: int, recompute: bool) -> float:
    """What layers save for their backward, by formula."""
    plan = subprocess.run([DUOKA, "plan", *layout_keys(tokens, recompute)], check=True, capture_output=True, text=True)
    found = re.search(r"^ *activations +([0-9.]+)$", plan.stdout, re.MULTILINE)
    if found is None:
        raise Failed("duoka plan says nothing of activations")
    return float(found[1]) * GIB


def line_through(points: list[tuple[int, float]]) -> tuple[float, float]:
    """Slope and value at 0 of the line with the least sum of squares."""
    mean_x, mean_y = (sum(values) / len(points) for values in zip(*points))
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _y in points)
    return slope, mean_y - slope * mean_x


def farthest_from_line(points: list[tuple[int, float]]) -> float:
    slope, start = line_through(points)
    return max(abs(y - start - slope * x) for x, y in points)


def judge(peaks: list[tuple[int, float]], planned: list[tuple[int, float]]) -> bool:
    """Prints what the peaks say. `planned`: bytes of saved tensors. True: memory is linear and nothing whole is in it."""
    config = json.loads(pathlib.Path(MODEL, "config.json").read_text(encoding="utf8"))
    scores = [(tokens, config["num_attention_heads"] * tokens**2 * BF16) for tokens, _peak in peaks]
    logits = config["vocab_size"] * BF16
    slope, start = line_through(peaks)
    off, bend = farthest_from_line(peaks), farthest_from_line(scores)
    unplanned = slope - line_through(planned)[0]
    print(f"line: {start / GIB:.2f} GiB and {slope / 1024:.1f} KiB a token; farthest from it {off / GIB:.3f} GiB")
    print(f"scores of one layer at {scores[-1][0]} tokens, whole: {scores[-1][1] / GIB:.2f} GiB; they would be {bend / GIB:.3f} from a line")
    print(f"logits, whole: {logits / 1024:.1f} KiB a token; beside what layers save there are {unplanned / 1024:.1f}")
    return off < bend / 2 and unplanned < logits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", default="2048,4096,8192,16384", help="in tokens; at least three")
    parser.add_argument("--recompute", action="store_true", help="layers run again in backward (gradient_checkpointing)")
    a = parser.parse_args()
    lengths = sorted({int(length) for length in a.lengths.split(",")})
    if len(lengths) < 3:
        parser.error("--lengths: two points are always on a line; give at least three")
    make_model()
    with folder_for_a_while() as folder:
        peaks, planned = [], []
        for tokens in lengths:
            training = train(folder, tokens, a.recompute)
            peaks.append((tokens, training.usage.gib[0] * GIB))
            planned.append((tokens, planned_bytes(tokens, a.recompute)))
            print(f"{tokens:6} tokens: {peaks[-1][1] / GIB:6.2f} GiB at most, of which saved by formula {planned[-1][1] / GIB:6.2f}; "
                  f"first update after {training.first_update_seconds():.0f} s", flush=True)
    sys.exit(0 if judge(peaks, planned) else 1)


if __name__ == "__main__":
    main()
