# SPDX-License-Identifier: Apache-2.0
"""Speed of duoka's tokenizer beside Hugging Face's `tokenizers`, one core each, in turn, on the same texts; the ids must be
equal. Every run is a process of its own that encodes all texts twice, of which the second time counts.

Build bench_tokenizer first: cmake --preset release -DDUOKA_BENCH=ON && cmake --build --preset release --target bench_tokenizer"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from measure import folder_for_a_while, spread  # noqa: E402

BINARY = "build/release/bin/bench_tokenizer"
TOKENIZERS = {"smollm2": ".assets/SmolLM2-135M-Instruct.Q4_1.gguf", "gpt-2": ".assets/vocabs/ggml-vocab-gpt-2.gguf",
              "llama-3": ".assets/vocabs/ggml-vocab-llama-bpe.gguf", "qwen2": ".assets/vocabs/ggml-vocab-qwen2.gguf"}
ROWS = {"alpaca_en": ".assets/alpaca_en_demo.json", "alpaca_zh": ".assets/alpaca_zh_demo.json",
        "define-the-word": ".assets/define-the-word/train.jsonl"}
LONG_BYTES, DOCUMENT_CHARACTERS = 20_000_000, 100_000
# encode_batch_fast leaves out where tokens begin, which duoka's encode() says.
PEERS = ["encode", "encode_batch", "encode_batch_fast"]


def rows_of(path: str) -> list[str]:
    """What is trained on of each row: all its strings, or those of its messages."""
    with open(path, encoding="utf8") as file:
        rows = json.load(file) if path.endswith(".json") else [json.loads(line) for line in file]
    return ["\n".join(strings_in(row)) for row in rows]


def strings_in(value: object) -> list[str]:
    if isinstance(value, str):
        return [value] if value else []
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for part in parts for text in strings_in(part)]


def make_texts(folder: pathlib.Path) -> dict[str, pathlib.Path]:
    """A file of NUL-ended texts each: the rows of each set, and `long`: all of them, over and over, in long documents."""
    texts = {name: rows_of(path) for name, path in ROWS.items() if pathlib.Path(path).exists()}
    together = "\n".join("\n".join(rows) for rows in texts.values())
    together = (together + "\n") * (LONG_BYTES // len(together.encode()) + 1)
    together = together.encode()[:LONG_BYTES].decode(errors="ignore")
    texts["long"] = [together[i:i + DOCUMENT_CHARACTERS] for i in range(0, len(together), DOCUMENT_CHARACTERS)]
    for name, rows in texts.items():
        (folder / name).write_bytes("".join(row + "\0" for row in rows).encode())
    return {name: folder / name for name in texts}


def peer_run(way: str, tokenizer_json: str, texts_file: str, ids_file: str) -> None:
    """This program as the peer: prints the seconds."""
    import tokenizers
    tokenizer = tokenizers.Tokenizer.from_file(tokenizer_json)
    texts = pathlib.Path(texts_file).read_bytes().decode().split("\0")[:-1]

    def encodings() -> Iterable[tokenizers.Encoding]:
        if way == "encode":
            return (tokenizer.encode(text, add_special_tokens=False) for text in texts)
        return getattr(tokenizer, way)(texts, add_special_tokens=False)

    ids = [encoding.ids for encoding in encodings()]
    start = time.perf_counter()
    for _ in encodings():
        pass
    print(f"{time.perf_counter() - start:.6f}")
    with open(ids_file, "wb") as out:
        for row in ids:
            out.write(b"".join(number.to_bytes(4, "little") for number in (len(row), *row)))


def seconds(command: list[str]) -> float:
    core = str(min(os.sched_getaffinity(0)))
    one_thread = {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"}
    done = subprocess.run(["taskset", "-c", core, *command], env={**os.environ, **one_thread}, stdout=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}")
    return float(done.stdout)


def measure(name: str, texts: pathlib.Path, ways: list[str], a: argparse.Namespace, folder: pathlib.Path) -> dict:
    """MB/s of duoka and of each way of the peer, in turn, and whether the ids are equal."""
    ours, theirs = folder / name, folder / "peer.bin"
    megabytes, found, is_equal = texts.stat().st_size / 1e6, {way: [] for way in ["duoka", *ways]}, True
    for _ in range(a.runs):
        found["duoka"].append(megabytes / seconds([BINARY, TOKENIZERS[name], str(texts), str(ours)]))
        for way in ways:
            found[way].append(megabytes / seconds([sys.executable, __file__, "--as-peer", way, str(ours / "tokenizer.json"),
                                                   str(texts), str(theirs)]))
            is_equal = is_equal and theirs.read_bytes() == (ours / "ids.bin").read_bytes()
    return {"tokenizer": name, "texts": texts.name, "megabytes": megabytes, "ids_are_equal": is_equal, "speeds": found}


def print_table(found: dict) -> None:
    print(f"{found['tokenizer']}, {found['texts']} ({found['megabytes']:.1f} MB), ids "
          f"{'equal' if found['ids_are_equal'] else 'DIFFER'}", flush=True)
    ours = statistics.median(found["speeds"]["duoka"])
    for way, speeds in found["speeds"].items():
        print(f"  {way:18} MB/s{spread(speeds)}  duoka {ours / statistics.median(speeds):5.2f} times", flush=True)


def main() -> None:
    if sys.argv[1:2] == ["--as-peer"]:
        return peer_run(*sys.argv[2:])
    parser = argparse.ArgumentParser(prog="bench/tokenizer", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizers", default=",".join(TOKENIZERS))
    parser.add_argument("--texts", default=",".join([*ROWS, "long"]))
    parser.add_argument("--peers", default=",".join(PEERS), help="functions of Hugging Face's Tokenizer")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out", type=pathlib.Path, help="a file that results are added to, one JSON line each")
    a = parser.parse_args()
    is_good = True
    print("                          least  median    most")
    with folder_for_a_while() as folder:
        texts = make_texts(pathlib.Path(folder))
        for name in a.tokenizers.split(","):
            for which in a.texts.split(","):
                if which not in texts:
                    print(f"{which}: {ROWS[which]} is not there", file=sys.stderr)
                    continue
                found = measure(name, texts[which], a.peers.split(","), a, pathlib.Path(folder))
                print_table(found)
                is_good = is_good and found["ids_are_equal"]
                if a.out:
                    with open(a.out, "a", encoding="utf8") as out:
                        out.write(json.dumps(found) + "\n")
    sys.exit(0 if is_good else 1)


main()
