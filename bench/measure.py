# SPDX-License-Identifier: Apache-2.0
"""What the comparisons share: a run of a program with its ranks' peak memory, and a run of `duoka train`."""
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

DUOKA = "build/release/bin/duoka"
MODEL = ".assets/smollm2-f32"
ROWS = ".assets/define-the-word/train.jsonl"
CUTOFF = 256


def descendants(pid):
    found = [pid]
    for one in found:
        try:
            for task in os.listdir(f"/proc/{one}/task"):
                with open(f"/proc/{one}/task/{task}/children", encoding="ascii") as children:
                    found += [int(child) for child in children.read().split()]
        except OSError:
            pass
    return found


def peak_kib(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as status:
            return next((int(line.split()[1]) for line in status if line.startswith("VmHWM:")), 0)
    except OSError:
        return 0


def run(command, environment, log, watch=lambda: None, time_limit=1800):
    """Runs to the end, calling `watch` ten times a second; returns the peak resident memory of each process,
    largest first, in GiB."""
    peaks, start = {}, time.time()
    with open(log, "w", encoding="utf8") as out:
        process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=out, stderr=subprocess.STDOUT)
        while process.poll() is None:
            for pid in descendants(process.pid):
                peaks[pid] = max(peaks.get(pid, 0), peak_kib(pid))
            watch()
            if time.time() - start > time_limit:
                process.terminate()
                sys.exit(f"{command[0]}: no end after {time_limit} s; see {log}")
            time.sleep(0.1)
    if process.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {process.returncode}; see {log}")
    return sorted((kib / 2**20 for kib in peaks.values()), reverse=True)


def run_duoka(a, rows, folder, more=()):
    """`duoka train` on `rows`, with the keys of `more` (key=value) besides; see the result's names."""
    start, seen = time.time(), []  # seen: (time, lines of the log so far)
    log = pathlib.Path(folder, "duoka", "trainer_log.jsonl")
    shutil.rmtree(log.parent, ignore_errors=True)

    def watch():
        lines = log.read_text(encoding="utf8").splitlines() if log.exists() else []
        if lines and (not seen or len(lines) > seen[-1][1]):
            seen.append((time.time(), len(lines)))

    memory = run(
        [DUOKA, "train", f"model_name_or_path={MODEL}", f"dataset={rows}", f"output_dir={log.parent}",
         f"max_steps={a.steps}", f"per_device_train_batch_size={a.micro}",
         f"gradient_accumulation_steps={a.accumulation}", "lora_rank=8", "lora_alpha=16", "learning_rate=4e-4",
         "lr_scheduler_type=constant", "disable_shuffling=true", f"cutoff_len={CUTOFF}", "logging_steps=1",
         "save_strategy=no", "report_to=none", f"bf16={'true' if a.bf16 else 'false'}", "--cards", str(a.ranks), *more],
        {"OMP_NUM_THREADS": str(a.threads)}, f"{folder}/duoka.log", watch)
    steps = [json.loads(line) for line in log.read_text(encoding="utf8").splitlines()]
    tokens = steps[seen[-1][1] - 1]["total_tokens"] - steps[seen[0][1] - 1]["total_tokens"]
    return {"tokens/s": tokens / (seen[-1][0] - seen[0][0]), "GiB per rank": memory[a.ranks - 1],
            "first update s": seen[0][0] - start, "losses": [step["loss"] for step in steps]}


def make_rows(num_rows, folder):
    """The first rows of the demo's data in a file of their own; also makes the model where it is not there."""
    if not pathlib.Path(MODEL).is_dir():
        subprocess.run([DUOKA, "export", "model_name_or_path=.assets/SmolLM2-135M-Instruct.Q4_1.gguf",
                        f"export_dir={MODEL}", "export_dtype=float32"], check=True)
    rows = f"{folder}/rows.jsonl"
    with open(ROWS, encoding="utf8") as source, open(rows, "w", encoding="utf8") as out:
        out.writelines(line for line, _ in zip(source, range(num_rows)))
    return rows


def spread(values):
    return f"{min(values):8.2f} {statistics.median(values):8.2f} {max(values):8.2f}"
