# SPDX-License-Identifier: Apache-2.0
"""Runs the work of bench/peers (rows of 30 to 600 tokens, 8 an update) under several layouts in turn, and prints each beside
plain data parallelism. All have the same rows in each update, and so the same losses.

    bench/compare_layouts [--runs 3] [--steps 4] [--ranks 2] [--threads 1] [--bf16] [--lora] [--layouts data,ZeRO-1]
"""
import argparse
import json
import os
import pathlib
import sys

from measure import MODEL, folder_for_a_while, make_model, run_duoka, spread

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "peer"))
from work import CUTOFF, MICRO, fitting_rows  # noqa: E402

LAYOUTS = {
    "data": [],
    "exact": ["reduction=exact"],
    "ZeRO-1": ["zero_stage=1"],
    "ZeRO-2": ["zero_stage=2"],
    "ZeRO-3": ["zero_stage=3"],
    "context": ["context_parallel_size={ranks}", "per_device_train_batch_size={rows}"],
    "state out": ["offload_optimizer=true"],
    "acts out": ["offload_activations=true"],
    "both out": ["offload_optimizer=true", "offload_activations=true"],
    "recompute": ["gradient_checkpointing=true"],
    "rec. + out": ["gradient_checkpointing=true", "offload_optimizer=true", "offload_activations=true"],
}


def keys_of(a, rows, more):
    """Of keys that are there twice, the later one."""
    keys = [f"model_name_or_path={MODEL}", f"dataset={rows}", f"max_steps={a.steps}",
            f"per_device_train_batch_size={a.micro}", f"gradient_accumulation_steps={a.accumulation}", "lora_rank=8",
            "lora_alpha=16", f"learning_rate={4e-4 if a.lora else 1e-5}", "lr_scheduler_type=constant", "disable_shuffling=true",
            f"cutoff_len={CUTOFF}", f"bf16={'true' if a.bf16 else 'false'}",
            f"finetuning_type={'lora' if a.lora else 'full'}"]
    keys += [key.format(ranks=a.ranks, rows=a.micro * a.ranks) for key in more]
    return [f"{name}={value}" for name, value in dict(key.split("=", 1) for key in keys).items()]


def one_run(a, keys, folder):
    training = run_duoka(keys, a.ranks, a.threads, folder)
    return {"tokens/s": training.tokens_per_second(), "GiB per rank": training.usage.gib[0],
            "losses": training.losses}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("runs", 3), ("steps", 4), ("ranks", 2), ("threads", 1), ("micro", MICRO), ("accumulation", 1)):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--lora", action="store_true", help="adapters instead of the whole model")
    parser.add_argument("--layouts", default=",".join(LAYOUTS), help="which of them; data is always there")
    a = parser.parse_args()
    names = ["data", *a.layouts.split(",")]
    if unknown := sorted(set(names) - set(LAYOUTS)):
        parser.error(f"--layouts: no {', '.join(unknown)}; there are {', '.join(LAYOUTS)}")
    chosen = {name: keys for name, keys in LAYOUTS.items() if name in names}
    with folder_for_a_while() as folder:
        compare(a, chosen, folder)


def make_rows(num_rows, folder):
    """The first rows of the work in a file of their own; also makes the model."""
    make_model()
    rows = fitting_rows(pathlib.Path(folder))
    if num_rows > len(rows):
        sys.exit(f"{num_rows} rows wanted, but there are {len(rows)}; fewer --steps, --micro or --accumulation")
    path = pathlib.Path(folder, "first-rows.jsonl")
    path.write_text("".join(json.dumps(row) + "\n" for row in rows[:num_rows]), encoding="utf8")
    return path


def compare(a, chosen, folder):
    rows = make_rows(a.steps * a.micro * a.accumulation * a.ranks, folder)
    results = {name: [] for name in chosen}
    for i in range(a.runs):
        for name, keys in chosen.items():
            results[name].append(one_run(a, keys_of(a, rows, keys), folder))
            print(f"run {i + 1} of {a.runs}: {name:10}{results[name][-1]['tokens/s']:8.1f} tokens/s", flush=True)
    print(f"\nSmolLM2-135M {'LoRA r8' if a.lora else 'full'}, {'bf16' if a.bf16 else 'f32'}, {a.ranks} ranks x {a.threads} "
          f"threads, {a.micro} rows x {a.accumulation} accumulated, {a.steps} updates, load now {os.getloadavg()[0]:.1f}")
    print(f"{'':10}{'tokens/s':>16}{'':11}{'ratio to data':>17}{'':10}{'GiB per rank':>17}")
    for name, runs in results.items():
        ratios = [r["tokens/s"] / d["tokens/s"] for r, d in zip(runs, results["data"])]
        print(f"{name:10}{spread([r['tokens/s'] for r in runs])} {spread(ratios)} {spread([r['GiB per rank'] for r in runs])}")
        print(f"{'':10}losses {[round(x, 4) for x in runs[0]['losses']]}")


main()
