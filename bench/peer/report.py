# SPDX-License-Identifier: Apache-2.0
"""Table and picture of the runs in a folder: report.py FOLDER."""
import itertools
import json
import pathlib
import statistics
import sys
from collections import defaultdict

import picture

MOST_OTHER_CORES = 0.1  # a run beside which anything else kept more than this busy is disturbed
TOLERANCE = {"f32": 0.002, "bf16": 0.02}  # of a loss
IN_ORDER = ("duoka", "duoka-recompute", "trainer", "bare", "bare-packed", "fsdp2")  # the same rows in each update
NAMES = {"trainer": "Trainer", "bare": "bare loop", "bare-packed": "bare loop, packed", "trl": "TRL, packed", "fsdp2": "FSDP2",
         "duoka-recompute": "duoka, recompute"}
ORDER = ("duoka", "duoka-recompute", "trainer", "trl", "bare", "bare-packed", "fsdp2", "llama.cpp")

Run = dict
Groups = dict[tuple, dict[str, list[Run]]]  # (work, precision, ranks, threads) -> program -> runs


def groups(runs: list[Run]) -> Groups:
    found: Groups = defaultdict(lambda: defaultdict(list))
    for one in runs:
        found[one["work"], one["precision"], one["ranks"], one["threads"]][one["program"]].append(one)
    place = {"lora": 0, "full": 1, "f32": 0, "bf16": 1}
    return {key: {name: found[key][name] for name in sorted(found[key], key=ORDER.index)}
            for key in sorted(found, key=lambda key: (place[key[0]], key[2], place[key[1]]))}


def is_disturbed(one: Run) -> bool:
    return one["other_cores"] > MOST_OTHER_CORES


def counted(runs: list[Run]) -> list[Run]:
    """Those that nothing disturbed; all, where each was."""
    return [one for one in runs if not is_disturbed(one)] or runs


def values(runs: list[Run], field: str) -> list[float]:
    return [one[field] for one in counted(runs)]


def spread(runs: list[Run], field: str, digits: int, factor: float = 1) -> str:
    found = [factor * value for value in values(runs, field)]
    return " / ".join(f"{value:.{digits}f}" for value in (min(found), statistics.median(found), max(found)))


def ratio(ours: list[Run], theirs: list[Run], field: str) -> str:
    if not ours or ours is theirs:
        return ""
    return f"{statistics.median(values(ours, field)) / statistics.median(values(theirs, field)):.2f}"


def number_of(runs: list[Run]) -> str:
    disturbed = sum(map(is_disturbed, runs))
    if disturbed == len(runs):
        return f"{disturbed}, all disturbed"
    return f"{len(runs) - disturbed}" + (f" ({disturbed} disturbed left out)" if disturbed else "")


def pairs_of(ours: list[Run], theirs: list[Run]) -> list[tuple[list[float], list[float]]]:
    """Losses of runs over the same updates."""
    return [(a["losses"], b["losses"]) for a, b in itertools.product(ours, theirs) if a["updates"] == b["updates"]]


def difference(ours: list[Run], theirs: list[Run]) -> str:
    """Of the losses: the largest in any update; of the means, where the updates have other rows."""
    pairs = pairs_of(ours, theirs)
    if not pairs or ours is theirs:
        return ""
    if theirs[0]["program"] not in IN_ORDER:
        return f"means {max(abs(statistics.mean(b) / statistics.mean(a) - 1) for a, b in pairs):.1%}"
    return f"{max(abs(y / x - 1) for a, b in pairs for x, y in zip(a, b)):.3%}"


def disagreements(runs: list[Run]) -> list[str]:
    """Programs whose losses say that they did other work than duoka."""
    found = []
    for key, programs in groups(runs).items():
        for name, theirs in programs.items():
            pairs = pairs_of(programs.get("duoka", []), theirs) if name in IN_ORDER else []
            worst = max((abs(y / x - 1) for a, b in pairs for x, y in zip(a, b)), default=0.0)
            if worst > TOLERANCE[key[1]]:
                found.append(f"{title(key)}, {name}: a loss differs by {worst:.2%} from duoka's, "
                             f"more than {TOLERANCE[key[1]]:.1%}")
    return found


def title(key: tuple) -> str:
    which, precision, ranks, threads = key
    return (f"{'LoRA' if which == 'lora' else 'All weights'}, {precision}, {ranks} rank{'s' if ranks > 1 else ''} of {threads} "
            f"thread{'s' if threads > 1 else ''}")


def section(key: tuple, programs: dict[str, list[Run]]) -> list[str]:
    ours = programs.get("duoka", [])
    peaks = [one["peak_gflops"] for runs in programs.values() for one in runs]
    lines = [f"## {title(key)}", "", f"Matrix multiplication: {min(peaks):.0f} to {max(peaks):.0f} GFLOP/s.", "",
             "| | runs | tokens/s | ratio | GiB a rank | ratio | first update, s | ratio | utilisation, % | losses differ |",
             "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for name, runs in programs.items():
        cells = [NAMES.get(name, name), number_of(runs),
                 spread(runs, "tokens_per_second", 0), ratio(ours, runs, "tokens_per_second"),
                 spread(runs, "gib_per_rank", 2), ratio(ours, runs, "gib_per_rank"),
                 spread(runs, "first_update_seconds", 1), ratio(ours, runs, "first_update_seconds"),
                 spread(runs, "utilisation", 0, 100), difference(ours, runs)]
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def table(runs: list[Run]) -> str:
    lines = ["# duoka beside other programs, by `bench/peers`", "",
             "Each cell: min / median / max. Ratio: duoka's median by this one's.", ""]
    for key, programs in groups(runs).items():
        lines += section(key, programs)
    versions = {one["program"]: one["versions"] for one in sorted(runs, key=lambda one: one["when"])}
    lines += [f"{NAMES.get(name, name)}: {versions[name]}  " for name in ORDER if name in versions]
    return "\n".join(lines) + "\n"


def bars(runs: list[Run]) -> list[picture.Panel]:
    return [picture.Panel(title(key), [
        picture.Bar(NAMES.get(name, name), *(f(values(of, "tokens_per_second")) for f in (min, statistics.median, max)),
                    f"{statistics.median(values(of, 'gib_per_rank')):.1f} GiB", name.startswith("duoka"))
        for name, of in programs.items()]) for key, programs in groups(runs).items()]


def write(folder: pathlib.Path) -> list[str]:
    """Returns what disagrees."""
    with open(folder / "runs.jsonl", encoding="utf8") as lines:
        runs = [json.loads(line) for line in lines]
    (folder / "table.md").write_text(table(runs), encoding="utf8")
    (folder / "picture.svg").write_text(picture.svg(bars(runs)), encoding="utf8")
    print(f"{folder}/table.md, {folder}/picture.svg: {len(runs)} runs")
    return disagreements(runs)


if __name__ == "__main__":
    sys.exit("\n".join(write(pathlib.Path(sys.argv[1]))) or 0)
