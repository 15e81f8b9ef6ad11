# SPDX-License-Identifier: Apache-2.0
"""What a training costs before it trains: from process start to the end of the first update, less an update (the median of those after
it). SmolLM2-135M in f32, LoRA, equal rows, model and token cache in the page cache.

    bench/start [--runs 5] [--updates 6] [--precision bf16,f32] [--ranks 1,2] [--work lora,full]
"""
import argparse
import itertools
import os
import pathlib
import statistics

from measure import CUTOFF, MODEL, ROWS, folder_for_a_while, make_model, run_duoka, spread

MICRO = 4


def equal_rows(folder: str, count: int) -> str:
    """One row of the demo's data, so many times."""
    with open(ROWS, encoding="utf8") as source:
        row = next(source)
    rows = pathlib.Path(folder, "rows.jsonl")
    rows.write_text(row * count, encoding="utf8")
    return str(rows)


def one_run(keys: list[str], ranks: int, folder: str) -> tuple[float, float]:
    """Seconds before the first update, and of an update."""
    training = run_duoka(keys, ranks, max(1, len(os.sched_getaffinity(0)) // ranks), folder)
    update = statistics.median(b - a for a, b in itertools.pairwise(training.times))
    return training.first_update_seconds() - update, update


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--updates", type=int, default=6)
    for name, default in (("precision", "bf16,f32"), ("ranks", "1,2"), ("work", "lora,full")):
        parser.add_argument("--" + name, default=default)
    a = parser.parse_args()
    make_model()
    with folder_for_a_while() as folder:
        rows = equal_rows(folder, MICRO * a.updates * 2)
        print("seconds                                  min   median      max   update")
        for work, precision, ranks in itertools.product(a.work.split(","), a.precision.split(","), map(int, a.ranks.split(","))):
            keys = [f"model_name_or_path={MODEL}", f"dataset={rows}", f"cache_dir={folder}/cache", f"cutoff_len={CUTOFF}",
                    f"max_steps={a.updates}", f"per_device_train_batch_size={MICRO}", f"finetuning_type={work}",
                    f"bf16={str(precision == 'bf16').lower()}", "learning_rate=1e-5", "lr_scheduler_type=constant"]
            one_run(keys, ranks, folder)  # tokenises, and brings the model into the page cache
            found = [one_run(keys, ranks, folder) for _ in range(a.runs)]
            starts, updates = zip(*found)
            print(f"{work:4} {precision:4} {ranks} rank{'s' if ranks > 1 else ' '}: before it trains "
                  f"{spread(list(starts))} {statistics.median(updates):8.2f}", flush=True)


if __name__ == "__main__":
    main()
