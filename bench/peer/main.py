# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes SmolLM2-135M by duoka and by the programs people use today, in turn, and writes table.md and picture.svg.

Runs are added to OUT/runs.jsonl, so that a long matrix can be measured in pieces; `bench/peer/report.py OUT` makes table and
picture of it again."""
import argparse
import itertools
import json
import os
import pathlib
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import report  # noqa: E402
import work  # noqa: E402
from measure import MODEL, Failed, Training, run, run_duoka  # noqa: E402

# name -> (program, packages whose versions are noted, for which settings it is)
PEERS = {
    "trainer": ("trainer.py", ["transformers", "peft", "accelerate", "torch"], lambda s: True),
    "bare": ("bare.py", ["transformers", "peft", "torch"], lambda s: True),
    "bare-packed": ("bare.py", ["transformers", "peft", "torch"], lambda s: True),
    "trl": ("trainer.py", ["trl", "transformers", "peft", "accelerate", "torch"], lambda s: True),
    "fsdp2": ("bare.py", ["transformers", "torch"], lambda s: s.work == "full" and s.ranks > 1),
    "llama.cpp": ("llama.py", ["llama-cpp-python"], lambda s: s.work == "full" and s.precision == "f32" and s.ranks == 1),
}
DUOKA_KEYS = {"duoka": [], "duoka-recompute": ["gradient_checkpointing=true"]}
RATES = {"lora": 4e-4, "full": 1e-5}


@dataclass(frozen=True)
class Setting:
    work: str
    precision: str
    ranks: int
    threads: int

    def accumulation(self) -> int:
        return max(1, work.ROWS_PER_UPDATE // (work.MICRO * self.ranks))

    def rows_per_update(self) -> int:
        return work.MICRO * self.ranks * self.accumulation()


def launch(program: list[str], setting: Setting) -> list[str]:
    if setting.ranks == 1:
        return [sys.executable, *program]
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={setting.ranks}", *program]


def environment(setting: Setting) -> dict[str, str]:
    return {"OMP_NUM_THREADS": str(setting.threads), "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}


def probe(setting: Setting, folder: pathlib.Path) -> float:
    """GFLOP/s of the best matrix multiplication, now, with this precision on these cores."""
    log = f"{folder}/probe.log"
    run(launch(["bench/peer/probe.py"] + (["--bf16"] if setting.precision == "bf16" else []), setting), environment(setting),
        log, time_limit=120)
    with open(log, encoding="utf8") as lines:
        return max(json.loads(next(line for line in lines if line.startswith("PROBE "))[6:]).values())


def run_peer(name: str, setting: Setting, rows: list[dict], a: argparse.Namespace, folder: pathlib.Path) -> Training:
    task = {"variant": name, "model": MODEL, "adapter": str(folder / "adapter") if setting.work == "lora" else "",
            "gguf": str(folder / "model-f32.gguf"), "bf16": setting.precision == "bf16", "ranks": setting.ranks,
            "threads": setting.threads, "micro": work.MICRO, "accumulation": setting.accumulation(), "updates": a.updates,
            "cutoff": work.CUTOFF, "learning_rate": RATES[setting.work], "out": str(folder / "record.json"), "rows": rows}
    (folder / "task.json").write_text(json.dumps(task), encoding="utf8")
    usage = run(launch([f"bench/peer/{PEERS[name][0]}", str(folder / "task.json")], setting), environment(setting),
                f"{folder}/{name}.log", time_limit=a.time_limit)
    return Training(usage, **json.loads((folder / "record.json").read_text(encoding="utf8")))


def run_ours(name: str, setting: Setting, a: argparse.Namespace, folder: pathlib.Path) -> Training:
    start = [f"adapter_name_or_path={folder / 'adapter'}"] if setting.work == "lora" else ["finetuning_type=full"]
    keys = [*work.data_keys(folder), *start, f"max_steps={a.updates}", f"per_device_train_batch_size={work.MICRO}",
            f"gradient_accumulation_steps={setting.accumulation()}", f"learning_rate={RATES[setting.work]}",
            "lr_scheduler_type=constant", "disable_shuffling=true", f"bf16={str(setting.precision == 'bf16').lower()}"]
    return run_duoka(keys + DUOKA_KEYS[name], setting.ranks, setting.threads, str(folder), a.time_limit)


def versions(name: str) -> str:
    if name not in PEERS:
        found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
        return found.stdout.strip() or "no git"
    return ", ".join(f"{package} {version(package)}" for package in PEERS[name][1])


def one_run(name: str, setting: Setting, rows: list[dict], peak: float, a: argparse.Namespace, folder: pathlib.Path) -> dict:
    training = run_peer(name, setting, rows, a, folder) if name in PEERS else run_ours(name, setting, a, folder)
    flops_per_token = work.flops(rows, setting.work == "lora") / sum(len(row["input_ids"]) for row in rows)
    speed = training.tokens_per_second()
    return {"program": name, **vars(setting), "updates": a.updates, "tokens_per_second": speed,
            "gib_per_rank": training.usage.gib[0], "first_update_seconds": training.first_update_seconds(),
            "utilisation": speed * flops_per_token / (peak * 1e9), "peak_gflops": peak, "losses": training.losses,
            "tokens": training.tokens, "other_cores": training.usage.other_cores, "versions": versions(name),
            "when": time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(training.usage.began))}


def measure(names: list[str], setting: Setting, all_rows: list[dict], a: argparse.Namespace, folder: pathlib.Path) -> bool:
    """All runs of one setting, in turn. Returns whether all went well."""
    size, is_good = a.updates * setting.rows_per_update(), True
    if size > len(all_rows):
        sys.exit(f"--updates {a.updates}: {size} rows wanted, but there are {len(all_rows)}")
    peak = probe(setting, folder)
    print(f"{setting.work} {setting.precision} {setting.ranks} x {setting.threads}: matrices {peak:.0f} GFLOP/s", flush=True)
    for i, name in itertools.product(range(a.runs), names):
        try:
            found = one_run(name, setting, all_rows[:size], peak, a, folder)
        except Failed as failure:
            print(f"  {name}: {failure}", file=sys.stderr, flush=True)
            is_good = False
            continue
        with open(a.out / "runs.jsonl", "a", encoding="utf8") as out:
            out.write(json.dumps(found) + "\n")
        print(f"  {i + 1} {name:16}{found['tokens_per_second']:8.1f} tokens/s {found['gib_per_rank']:6.2f} GiB "
              f"{found['first_update_seconds']:6.1f} s {100 * found['utilisation']:4.0f} %  "
              f"elsewhere {found['other_cores']:.2f} cores, losses {[round(loss, 4) for loss in found['losses'][:3]]}",
              flush=True)
    return is_good


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/peers", description=__doc__)
    parser.add_argument("--peers", default=",".join(PEERS),
                        help=f"of {','.join(PEERS)}, {','.join(DUOKA_KEYS)}; duoka always runs")
    parser.add_argument("--work", default="lora,full")
    parser.add_argument("--precision", default="f32,bf16")
    parser.add_argument("--ranks", default="1,2", help="the cores are shared out among them")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--updates", type=int, default=4, help="of 8 rows; the first is not timed")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("runs/peers"))
    parser.add_argument("--time-limit", type=float, default=600, help="seconds that one run may take")
    a = parser.parse_args()
    a.peers = [name for name in a.peers.split(",") if name not in ("", "duoka")]
    unknown = [name for name in a.peers if name not in {**PEERS, **DUOKA_KEYS}]
    if unknown or a.updates < 2:
        parser.error(f"no such peer: {', '.join(unknown)}" if unknown else "--updates: at least 2")
    return a


def main() -> None:
    a, cores = arguments(), len(os.sched_getaffinity(0))
    rows, is_good = work.prepare(a.out / "work", "llama.cpp" in a.peers), True
    for which, precision, ranks in itertools.product(a.work.split(","), a.precision.split(","), map(int, a.ranks.split(","))):
        setting = Setting(which, precision, ranks, max(1, cores // ranks))
        names = ["duoka", *(name for name in a.peers if name not in PEERS or PEERS[name][2](setting))]
        if len(names) > 1 or not a.peers:
            is_good = measure(names, setting, rows, a, a.out / "work") and is_good
    disagreements = report.write(a.out)
    print("\n".join(disagreements), file=sys.stderr, end="\n" if disagreements else "")
    sys.exit(0 if is_good and not disagreements else 1)


if __name__ == "__main__":
    main()
