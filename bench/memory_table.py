# SPDX-License-Identifier: Apache-2.0
"""Full fine-tuning of SmolLM2-135M under each layout on 1, 2, 4 and 8 CPU ranks: tensors of each class on a rank, as the
allocator counts them, beside what parallel::estimate() says. Of a pipeline, the fullest rank.

    bench/memory_table [--tokens 256] [--svg docs/images/memory.svg] [--most-gib 14]

Needs bench_memory_table (cmake -DDUOKA_BENCH=ON) or the tests' train_memory_child. Runs whose ranks together would take
more than --most-gib are left out, and said to be.
"""
import argparse
import json
import pathlib
import sys

from measure import MODEL, folder_for_a_while, make_model, run

CLASSES = ["parameters", "gradients", "optimizer", "activations"]
NAMES = {"optimizer": "optimizer state"}
GIB = 2**30

LAYOUTS = [("plain", [1], []), ("data", [2, 4, 8], []), ("ZeRO-1", [2, 4, 8], ["zero=1"]), ("ZeRO-2", [2, 4, 8], ["zero=2"]),
           ("ZeRO-3", [2, 4, 8], ["zero=3"]), ("ZeRO-3 within 2", [4, 8], ["zero=3", "shard=2"]),
           ("context", [2, 4, 8], ["context={n}"]), ("tensor", [3], ["tensor=3"]), ("pipeline", [2, 4, 8], ["pipeline={n}"]),
           ("pipeline 2 × ZeRO-3", [4, 8], ["pipeline=2", "zero=3"])]


def program():
    for name in ("bench_memory_table", "train_memory_child"):
        path = pathlib.Path("build/release/bin", name)
        if path.exists():
            return str(path)
    sys.exit("build bench_memory_table first: cmake --preset release -DDUOKA_BENCH=ON && ninja -C build/release bench_memory_table")


def count(num_ranks, keys, tokens, folder):
    """Of the fullest place of the pipeline: for each class, bytes as counted and by formula."""
    words = [program(), MODEL, f"tokens={tokens}", f"accumulation={max(2, num_ranks if any('pipeline' in k for k in keys) else 2)}",
             *[key.format(n=num_ranks) for key in keys], "--cards", str(num_ranks)]
    log = pathlib.Path(folder, "memory_table.log")
    run(words, {"OMP_NUM_THREADS": "1"}, str(log))
    lines = [json.loads(line) for line in log.read_text(encoding="utf8").splitlines() if line.startswith("{")]
    return max(lines, key=lambda line: together(line, 0))


def together(line, which):
    """Of all classes: 0 as counted, 1 by formula."""
    return sum(line[one][which] for one in CLASSES)


def expected_bytes(num_ranks, name):
    """Of all ranks together, to see whether the machine holds them: 16 bytes a number, where nothing is shared."""
    return 134.5e6 * 16 * (num_ranks if name in ("data", "context") else 1)


def count_all(a, folder):
    results = []
    for num_ranks in sorted({n for _, sizes, _ in LAYOUTS for n in sizes}):
        for name, sizes, keys in LAYOUTS:
            if num_ranks in sizes:
                fits = expected_bytes(num_ranks, name) <= a.most_gib * GIB
                results.append((num_ranks, name, count(num_ranks, keys, a.tokens, folder) if fits else None))
                print(results[-1], file=sys.stderr, flush=True)
    return results


def table(results):
    print("| ranks | layout | parameters | gradients | optimizer state | activations | together | by formula | largest difference |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for num_ranks, name, line in results:
        if line is None:
            print(f"| {num_ranks} | {name} | not run: too much for this machine | | | | | | |")
            continue
        numbers = [*(line[one][0] for one in CLASSES), together(line, 0), together(line, 1)]
        most = max((100 * (line[one][0] / line[one][1] - 1) for one in CLASSES), key=abs)
        print(f"| {num_ranks} | {name} | {' | '.join(f'{n / GIB:.3f}' for n in numbers)} | {most:.2f} % |")


# Of middle lightness, as those of the other pictures: for light and dark pages.
STYLE = """<style>
text { font: 13px sans-serif; fill: #737d8a } .small { font-size: 12px } .title { font-weight: 600; font-size: 14px }
.parameters { fill: #3d74b8 } .gradients { fill: #3a8f5c } .optimizer { fill: #b9722a } .activations { fill: #8a5fb0 }
.mark { stroke: #737d8a; stroke-width: 2 } .rule { stroke: #737d8a; stroke-opacity: 0.35 }
</style>"""
LEFT, RIGHT, TOP = 220, 700, 92  # of the bars, in a picture 760 wide
BAR, STEP, GROUP_GAP = 14, 20, 12


def legend():
    parts, x = [], 12
    for one in CLASSES:
        name = NAMES.get(one, one)
        parts.append(f'<rect class="{one}" x="{x}" y="44" width="12" height="12"/><text x="{x + 17}" y="55">{name}</text>')
        x += 36 + 7 * len(name)
    return [*parts, f'<line class="mark" x1="{x + 4}" x2="{x + 4}" y1="42" y2="58"/><text x="{x + 12}" y="55">by formula</text>']


def bars(shown, scale):
    """And the height at which they end."""
    parts, y, before = [], TOP, None
    for num_ranks, name, line in shown:
        if num_ranks != before:
            y += GROUP_GAP if before is not None else 0
            parts.append(f'<text x="12" y="{y + 12}">{num_ranks} rank{"s" if num_ranks > 1 else ""}</text>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 12}" text-anchor="end">{name}</text>')
        x = LEFT
        for one in CLASSES:
            width = line[one][0] * scale
            parts.append(f'<rect class="{one}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BAR}"/>')
            x += width
        end = LEFT + together(line, 1) * scale
        parts.append(f'<line class="mark" x1="{end:.1f}" x2="{end:.1f}" y1="{y - 2}" y2="{y + BAR + 2}"/>')
        parts.append(f'<text class="small" x="{max(x, end) + 6:.1f}" y="{y + 12}">{together(line, 0) / GIB:.2f}</text>')
        y, before = y + STEP, num_ranks
    return parts, y


def rules(scale, bottom):
    """A line every half GiB."""
    parts = [f'<text class="small" x="{LEFT - 16}" y="{TOP - 12}" text-anchor="end">GiB on a rank</text>']
    for half in range(int((RIGHT - LEFT) / scale / GIB * 2) + 1):
        x = LEFT + half * GIB / 2 * scale
        parts.append(f'<line class="rule" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 6}" y2="{bottom}"/>'
                     f'<text class="small" x="{x:.1f}" y="{TOP - 12}" text-anchor="middle">{half / 2:g}</text>')
    return parts


def svg(results, tokens):
    """A bar a layout; the thin line at its end is the formula's sum."""
    shown = [result for result in results if result[2] is not None]
    scale = (RIGHT - LEFT) / max(together(line, 0) for _, _, line in shown)
    parts, bottom = bars(shown, scale)
    title = f"SmolLM2-135M, all of it trained by AdamW in f32, micro-batches of {tokens} tokens"
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {bottom + 8}" width="760" height="{bottom + 8}" role="img" '
            f'aria-label="GiB on a rank: {title}">\n{STYLE}\n<text class="title" x="12" y="24">{title}</text>\n'
            + "\n".join([*rules(scale, bottom), *legend(), *parts]) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--svg")
    parser.add_argument("--most-gib", type=float, default=14)
    a = parser.parse_args()
    make_model()
    with folder_for_a_while() as folder:
        results = count_all(a, folder)
    table(results)
    if a.svg:
        path = pathlib.Path(a.svg)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(svg(results, a.tokens), encoding="utf8")


if __name__ == "__main__":
    main()
