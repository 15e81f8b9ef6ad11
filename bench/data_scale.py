# SPDX-License-Identifier: Apache-2.0
"""Memory and start of the data path as the data set grows: tokenises sets of short rows, then starts a training of SmolLM2-135M from
the token cache, and prints the peak of anonymous memory (RssAnon: what the process itself holds, mapped files left out) and the
time from process start to the end of the first update.

    bench/data_scale [--rows 10000,100000,1000000,5000000] [--runs 3] [--packing]        # 2 GB of disk for 5 million rows
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import time

from measure import DUOKA, MODEL, Failed, folder_for_a_while, make_model


def anonymous_mib(pid: int) -> float:
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as status:
            return next((int(line.split()[1]) / 1024 for line in status if line.startswith("RssAnon:")), 0)
    except OSError:
        return 0


def watched(command: list[str], log: pathlib.Path) -> tuple[float, float]:
    """Runs to the end. Returns the peak of anonymous memory, in MiB, and when it was started."""
    peak, began = 0.0, time.time()
    with open(log, "w", encoding="utf8") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        while process.poll() is None:
            peak = max(peak, anonymous_mib(process.pid))
            time.sleep(0.002)
    if process.returncode != 0:
        raise Failed(f"{' '.join(command)}: exit code {process.returncode}; see {log}")
    return peak, began


def write_rows(path: pathlib.Path, count: int) -> None:
    with open(path, "w", encoding="ascii") as out:
        # Of equal length, so that an update costs the same in each set.
        out.writelines(f'{{"text": "Row {i:07}: its square ends in {i * i % 10**7:07}, and that is that."}}\n' for i in range(count))


def start(folder: pathlib.Path, keys: list[str]) -> tuple[float, float]:
    """A training of one update. Returns the peak of anonymous memory and seconds to the end of the update."""
    out = folder / "out"
    peak, began = watched([DUOKA, "train", *keys, f"output_dir={out}", "overwrite_output_dir=true", "max_steps=1", "bf16=true",
                           "learning_rate=1e-4", "logging_steps=1", "save_strategy=no", "report_to=none", "plot_loss=false"],
                          folder / "train.log")
    return peak, (out / "trainer_log.jsonl").stat().st_mtime - began


def measure(count: int, a: argparse.Namespace, folder: pathlib.Path) -> None:
    rows = folder / "rows.jsonl"
    write_rows(rows, count)
    data = [f"model_name_or_path={MODEL}", f"dataset={rows}", f"cache_dir={folder / 'cache'}", "stage=pt", "cutoff_len=64",
            f"packing={str(a.packing).lower()}"]
    tokenising, began = watched([DUOKA, "data", "inspect", *data], folder / "inspect.log")
    seconds = time.time() - began
    time.sleep(0.1)
    start(folder, data)  # the files have not changed for a moment: from here on they are taken as checked
    runs = [start(folder, data) for _ in range(a.runs)]
    times = [seconds for _peak, seconds in runs]
    print(f"{count:9} rows: tokenising {tokenising:6.1f} MiB, {seconds:6.1f} s; training {max(p for p, _s in runs):6.1f} MiB, "
          f"first update after {min(times):5.2f} {statistics.median(times):5.2f} {max(times):5.2f} s", flush=True)
    for path in [rows, *(folder / "cache").iterdir()]:
        path.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="10000,100000,1000000,5000000")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--packing", action="store_true", help="plans the whole epoch, which holds 5 bytes a row")
    a = parser.parse_args()
    make_model()
    with folder_for_a_while() as folder:
        print(f"min, median and max of {a.runs} runs, one rank of {len(os.sched_getaffinity(0))} threads")
        for count in map(int, a.rows.split(",")):
            measure(count, a, pathlib.Path(folder))


if __name__ == "__main__":
    main()
