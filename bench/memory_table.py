# SPDX-License-Identifier: Apache-2.0
"""Full fine-tuning of SmolLM2-135M under each layout on 1, 2, 4 and 8 CPU ranks: tensors of each class on a rank, as the
allocator counts them, beside what parallel::estimate() says.

    bench/memory_table [--tokens 256] [--svg docs/images/memory.svg] [--most-gib 14]

Needs bench_memory_table (cmake -DDUOKA_BENCH=ON) or the tests' train_memory_child. Runs whose ranks together would take
more than --most-gib are left out, and said to be.
"""
import argparse
import json
import pathlib
import subprocess
import sys

from measure import MODEL, make_model

CLASSES = ["parameters", "gradients", "optimizer", "activations"]
NAMES = {"optimizer": "optimizer state"}
MIB = 2**20

LAYOUTS = [("one rank", [1], []), ("data", [2, 4, 8], []), ("ZeRO-1", [2, 4, 8], ["zero=1"]), ("ZeRO-2", [2, 4, 8], ["zero=2"]),
           ("ZeRO-3", [2, 4, 8], ["zero=3"]), ("ZeRO-3 within 2", [4, 8], ["zero=3", "shard=2"]),
           ("context", [2, 4, 8], ["context={n}"]), ("tensor", [3], ["tensor=3"]), ("pipeline", [2, 4, 8], ["pipeline={n}"]),
           ("pipeline 2, ZeRO-3", [4, 8], ["pipeline=2", "zero=3"])]


def program():
    for name in ("bench_memory_table", "train_memory_child"):
        path = pathlib.Path("build/release/bin", name)
        if path.exists():
            return str(path)
    sys.exit("build bench_memory_table first: cmake --preset release -DDUOKA_BENCH=ON && ninja -C build/release bench_memory_table")


def run(num_ranks, keys, tokens):
    """A line for each place of the pipeline, the fullest first."""
    words = [program(), MODEL, f"tokens={tokens}", f"accumulation={max(2, num_ranks if any('pipeline' in k for k in keys) else 2)}",
             *[key.format(n=num_ranks) for key in keys], "--cards", str(num_ranks)]
    found = subprocess.run(words, check=True, capture_output=True, text=True, env={"OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"},
                           timeout=900)
    lines = [json.loads(line) for line in found.stdout.splitlines()]
    return sorted(lines, key=lambda line: -sum(line[one][0] for one in CLASSES))


def expected_bytes(num_ranks, name):
    """Of all ranks together, to see whether the machine holds them: 16 bytes a number, where nothing is shared."""
    return 134.5e6 * 16 * (num_ranks if name in ("data", "context") else 1)


def percent(measured, formula):
    return 100 * (measured - formula) / formula


def table(results):
    print("| ranks | layout | parameters | gradients | optimizer state | activations | largest difference |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for num_ranks, name, line in results:
        if line is None:
            print(f"| {num_ranks} | {name} | not run: too much for this machine | | | | |")
            continue
        cells = [f"{line[one][0] / MIB:,.1f} ({line[one][1] / MIB:,.1f})" for one in CLASSES]
        most = max((percent(*line[one]) for one in CLASSES), key=abs)
        print(f"| {num_ranks} | {name} | {' | '.join(cells)} | {most:+.2f} % |")


STYLE = """<style>
text { font: 13px system-ui, sans-serif; fill: #1f2328 } .small { font-size: 11px; fill: #59636e }
.parameters { fill: #4c78a8 } .gradients { fill: #f58518 } .optimizer { fill: #54a24b } .activations { fill: #b279a2 }
.mark { stroke: #1f2328 } .rule { stroke: #d1d9e0 }
@media (prefers-color-scheme: dark) { text { fill: #f0f6fc } .small { fill: #9198a1 } .mark { stroke: #f0f6fc } .rule { stroke: #3d444d } }
</style>"""


def svg(results, tokens):
    """A bar a layout; the thin line behind its end is the formula's sum."""
    shown = [(n, name, line) for n, name, line in results if line is not None]
    left, right, bar, gap, top = 180, 700, 16, 6, 74
    most = max(sum(line[one][0] for one in CLASSES) for _, _, line in shown)
    scale = (right - left) / most
    parts, y, before = [], top, None
    for num_ranks, name, line in shown:
        if before is not None and num_ranks != before:
            y += 12
        label = name if name == "one rank" else f"{num_ranks} × {name}"
        parts.append(f'<text x="{left - 8}" y="{y + 13}" text-anchor="end">{label}</text>')
        x = left
        for one in CLASSES:
            width = line[one][0] * scale
            parts.append(f'<rect class="{one}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{bar}"/>')
            x += width
        end = left + sum(line[one][1] for one in CLASSES) * scale
        parts.append(f'<line class="mark" x1="{end:.1f}" x2="{end:.1f}" y1="{y - 2}" y2="{y + bar + 2}"/>')
        parts.append(f'<text class="small" x="{max(x, end) + 6:.1f}" y="{y + 12}">{sum(line[one][0] for one in CLASSES) / MIB:,.0f}</text>')
        y, before = y + bar + gap, num_ranks
    legend, x = [], left
    for one in CLASSES:
        name = NAMES.get(one, one)
        legend.append(f'<rect class="{one}" x="{x}" y="44" width="12" height="12"/><text x="{x + 17}" y="55">{name}</text>')
        x += 32 + 7.2 * len(name)
    legend.append(f'<line class="mark" x1="{x + 4:.0f}" x2="{x + 4:.0f}" y1="42" y2="58"/><text x="{x + 11:.0f}" y="55">by formula</text>')
    title = f"MiB on each rank: SmolLM2-135M, all trained, f32, AdamW, micro-batches of {tokens} tokens"
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {y + 10}" role="img" aria-label="{title}">\n{STYLE}\n'
            f'<text x="8" y="24" font-weight="600">{title}</text>\n' + "\n".join(legend + parts) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--svg")
    parser.add_argument("--most-gib", type=float, default=14)
    a = parser.parse_args()
    make_model()
    results = []
    for num_ranks in sorted({n for _, sizes, _ in LAYOUTS for n in sizes}):
        for name, sizes, keys in LAYOUTS:
            if num_ranks in sizes:
                fits = expected_bytes(num_ranks, name) <= a.most_gib * 2**30
                results.append((num_ranks, name, run(num_ranks, keys, a.tokens)[0] if fits else None))
                print(results[-1], file=sys.stderr, flush=True)
    table(results)
    if a.svg:
        path = pathlib.Path(a.svg)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(svg(results, a.tokens), encoding="utf8")


main()
