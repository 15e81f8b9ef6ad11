# SPDX-License-Identifier: Apache-2.0
"""Runs the same LoRA fine-tuning on duoka and on a Transformers + peft + Accelerate trainer, in turn.

    bench/compare_trainer [--runs 3] [--steps 8] [--ranks 2] [--threads 1] [--bf16]
"""
import argparse
import json
import os
import shutil
import sys
import tempfile
import time

from measure import CUTOFF, MODEL, make_rows, run, run_duoka, spread


def run_peer(a, rows, folder):
    with open(rows, encoding="utf8") as lines:
        num_rows = sum(1 for _ in lines)
    memory = run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={a.ranks}",
         "bench/peer_trainer.py", "--model", MODEL, "--data", rows, "--out", f"{folder}/peer", "--rows", str(num_rows),
         "--steps", str(a.steps), "--micro", str(a.micro), "--accumulation", str(a.accumulation), "--cutoff",
         str(CUTOFF), "--began", str(time.time())] + (["--bf16"] if a.bf16 else []),
        {"OMP_NUM_THREADS": str(a.threads)}, f"{folder}/peer.log")
    with open(f"{folder}/peer.log", encoding="utf8") as log:
        result = json.loads(next(line for line in log if line.startswith("RESULT "))[7:])
    share = (result["steps"] - 1) / result["steps"]
    return {"tokens/s": result["tokens"] * share / result["seconds"], "GiB per rank": memory[a.ranks - 1],
            "first update s": result["first_step_seconds"], "losses": result["losses"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("runs", 3), ("steps", 8), ("ranks", 2), ("threads", 1), ("micro", 4), ("accumulation", 2)):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--bf16", action="store_true")
    a = parser.parse_args()
    num_rows = a.steps * a.micro * a.accumulation * a.ranks
    folder = tempfile.mkdtemp(prefix="duoka-bench-")
    rows = make_rows(num_rows, folder)
    results = {"duoka": [], "peer": []}
    for i in range(a.runs):
        results["duoka"].append(run_duoka(a, rows, folder))
        results["peer"].append(run_peer(a, rows, folder))
        print(f"run {i + 1} of {a.runs}:", {who: round(r[-1]["tokens/s"], 1) for who, r in results.items()}, flush=True)
    print(f"\nSmolLM2-135M LoRA r8, {'bf16' if a.bf16 else 'f32'}, {a.ranks} ranks x {a.threads} threads, "
          f"{a.micro} rows x {a.accumulation} accumulated, {a.steps} updates, load now {os.getloadavg()[0]:.1f}")
    print(f"{'':22}{'min':>8} {'median':>8} {'max':>8}")
    for key in ("tokens/s", "GiB per rank", "first update s"):
        for who in results:
            print(f"{who + ' ' + key:22}{spread([r[key] for r in results[who]])}")
        ratios = [d[key] / p[key] for d, p in zip(results["duoka"], results["peer"])]
        print(f"{'  ratio duoka / peer':22}{spread(ratios)}")
    print("losses duoka", [round(x, 4) for x in results["duoka"][0]["losses"]])
    print("losses peer ", [round(x, 4) for x in results["peer"][0]["losses"]])
    shutil.rmtree(folder)


main()
