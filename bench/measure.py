# SPDX-License-Identifier: Apache-2.0
"""What the comparisons share: a folder for a while, a run of a program with its ranks' peak memory and the load from elsewhere
meanwhile, and a run of `duoka train`."""
import contextlib
import json
import os
import pathlib
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

DUOKA = "build/release/bin/duoka"
MODEL = ".assets/smollm2-f32"
ROWS = ".assets/define-the-word/train.jsonl"
CUTOFF = 256


class Failed(Exception):
    """A program ended with an error or took too long; the text says which, and where its log is."""


@dataclass
class Usage:
    gib: list[float]  # peak resident memory of each process, largest first
    other_cores: float  # cores that anything else kept busy meanwhile, on average
    began: float  # when the program was started, time.time()


@dataclass
class Training:
    usage: Usage
    times: list[float]  # when each update ended, time.time()
    tokens: list[int]  # of each update, on all ranks, no padding
    losses: list[float]

    def tokens_per_second(self) -> float:
        """From the end of the first update on: what is made once belongs to first_update_seconds."""
        return sum(self.tokens[1:]) / (self.times[-1] - self.times[0])

    def first_update_seconds(self) -> float:
        return self.times[0] - self.usage.began


@contextlib.contextmanager
def folder_for_a_while() -> Iterator[str]:
    """A new folder, gone at the end, also where this one is told to end. Where a program Failed it stays, for its log."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: sys.exit(128 + number))
    folder, is_over = tempfile.mkdtemp(prefix="duoka-bench-"), True
    try:
        yield folder
    except Failed as failure:
        is_over = False
        sys.exit(str(failure))
    finally:
        if is_over:
            shutil.rmtree(folder)


def descendants(pid: int) -> list[int]:
    found = [pid]
    for one in found:
        try:
            for task in os.listdir(f"/proc/{one}/task"):
                with open(f"/proc/{one}/task/{task}/children", encoding="ascii") as children:
                    found += [int(child) for child in children.read().split()]
        except OSError:
            pass
    return found


def peak_kib(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as status:
            return next((int(line.split()[1]) for line in status if line.startswith("VmHWM:")), 0)
    except OSError:
        return 0


def busy_seconds() -> float:
    """Of all cores since boot, time that a hypervisor took away included."""
    with open("/proc/stat", encoding="ascii") as stat:
        user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, stat.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def own_seconds() -> float:
    """Processor time of this process and of those it has waited for, with theirs."""
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses)


def end(pids: list[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass


def run(command: list[str], environment: dict[str, str], log: str, watch: Callable[[], None] = lambda: None,
        time_limit: float = 1800) -> Usage:
    """Runs to the end, calling `watch` fifty times a second. Throws Failed; nothing is left running, also where this one is
    told to end."""
    peaks: dict[int, int] = {}
    busy, own, began, turn = busy_seconds(), own_seconds(), time.time(), 0
    with open(log, "w", encoding="utf8") as out:
        process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=out, stderr=subprocess.STDOUT)
        try:
            while process.poll() is None:
                if turn % 10 == 0:
                    for pid in descendants(process.pid):
                        peaks[pid] = max(peaks.get(pid, 0), peak_kib(pid))
                turn += 1
                watch()
                if time.time() - began > time_limit:
                    raise Failed(f"{command[0]}: no end after {time_limit:.0f} s; see {log}")
                time.sleep(0.02)
        finally:
            if process.poll() is None:
                end(descendants(process.pid))
                process.wait()
    watch()
    if process.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))}: exit code {process.returncode}; see {log}")
    other = busy_seconds() - busy - (own_seconds() - own)
    return Usage(sorted((kib / 2**20 for kib in peaks.values()), reverse=True), max(0, other) / (time.time() - began), began)


def run_duoka(keys: list[str], ranks: int, threads: int, folder: str, time_limit: float = 1800) -> Training:
    """`duoka train` with `keys` (key=value), one line of its log an update. Throws Failed."""
    log = pathlib.Path(folder, "duoka", "trainer_log.jsonl")
    shutil.rmtree(log.parent, ignore_errors=True)
    times: list[float] = []

    def watch() -> None:
        try:
            num_lines, written = log.read_bytes().count(b"\n"), log.stat().st_mtime
        except OSError:
            return
        times.extend([written] * (num_lines - len(times)))

    usage = run([DUOKA, "train", *keys, f"output_dir={log.parent}", "logging_steps=1", "save_strategy=no", "report_to=none",
                 "--cards", str(ranks)], {"OMP_NUM_THREADS": str(threads)}, f"{folder}/duoka.log", watch, time_limit)
    lines = [json.loads(line) for line in log.read_text(encoding="utf8").splitlines()]
    totals = [0] + [line["total_tokens"] for line in lines]
    return Training(usage, times, [b - a for a, b in zip(totals, totals[1:])], [line["loss"] for line in lines])


def make_model() -> None:
    """As a Hugging Face folder in f32, where it is not there."""
    if not pathlib.Path(MODEL).is_dir():
        subprocess.run([DUOKA, "export", "model_name_or_path=.assets/SmolLM2-135M-Instruct.Q4_1.gguf",
                        f"export_dir={MODEL}", "export_dtype=float32"], check=True)


def spread(values: list[float]) -> str:
    return f"{min(values):8.2f} {statistics.median(values):8.2f} {max(values):8.2f}"
