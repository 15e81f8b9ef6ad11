# SPDX-License-Identifier: Apache-2.0
"""The work of bench/peers: rows of real conversations as duoka tokenises them, and what they cost in FLOPs."""
import array
import json
import pathlib
import struct
import subprocess
import sys

from measure import DUOKA, MODEL, make_model

SOURCE = ".assets/alpaca_en_demo.json"
SHORTEST, LONGEST, CUTOFF = 30, 600, 512  # of a row, before the cut, in tokens
MICRO, ROWS_PER_UPDATE = 4, 8
IGNORED = -100


def data_keys(folder: pathlib.Path) -> list[str]:
    return [f"model_name_or_path={MODEL}", f"dataset={folder}/rows.jsonl", f"cutoff_len={CUTOFF}", f"cache_dir={folder}/cache"]


def read_tokens(path: pathlib.Path) -> list[dict]:
    """Rows of a token cache (docs/token-cache.md), in the order of the data file."""
    data = path.read_bytes()
    num_tokens, num_rows = struct.unpack_from("=QQ", data, len(data) - 112 + 24)
    words = array.array("I", data[:4 * num_tokens])
    rows = []
    for i in range(num_rows):
        first, size, _trained, before_cut, line = struct.unpack_from("=QIIII", data, (4 * num_tokens + 7) // 8 * 8 + 24 * i)
        ids = [word & 0x7FFFFFFF for word in words[first:first + size]]
        labels = [token if word >> 31 else IGNORED for token, word in zip(ids, words[first:first + size])]
        rows.append((line, before_cut, {"input_ids": ids, "labels": labels}))
    return [(before_cut, row) for _line, before_cut, row in sorted(rows, key=lambda one: one[0])]


def tokenised(folder: pathlib.Path, source: list[dict]) -> list[tuple[int, dict]]:
    """Writes folder/rows.jsonl and has duoka tokenise it into folder/cache."""
    with open(folder / "rows.jsonl", "w", encoding="utf8") as out:
        out.writelines(json.dumps(row) + "\n" for row in source)
    for old in (folder / "cache").glob("*.tokens"):
        old.unlink()
    subprocess.run([DUOKA, "data", "inspect", *data_keys(folder)], check=True, stdout=subprocess.DEVNULL)
    rows = read_tokens(next((folder / "cache").glob("*.tokens")))
    if len(rows) != len(source):
        sys.exit(f"{SOURCE}: {len(source)} rows, but duoka uses {len(rows)} of them; `duoka data inspect` says why")
    return rows


def fitting_rows(folder: pathlib.Path) -> list[dict]:
    """The rows of SOURCE that are neither too short nor too long, as they stand there. Overwrites folder/rows.jsonl."""
    source = json.loads(pathlib.Path(SOURCE).read_text(encoding="utf8"))
    lengths = [length for length, _row in tokenised(folder, source)]
    return [row for row, length in zip(source, lengths) if SHORTEST <= length <= LONGEST]


def prepare(folder: pathlib.Path, gguf: bool) -> list[dict]:
    """Everything that no program may be charged for, made once: model, rows, adapter to start from, GGUF. Returns the rows."""
    folder.mkdir(parents=True, exist_ok=True)
    make_model()
    if not (folder / "tokens.json").exists():
        rows = [row for _length, row in tokenised(folder, fitting_rows(folder))]
        (folder / "tokens.json").write_text(json.dumps(rows), encoding="utf8")
    if not (folder / "adapter" / "adapter_config.json").exists():
        subprocess.run([sys.executable, "bench/peer/adapter.py", MODEL, str(folder / "adapter")], check=True)
    if gguf and not (folder / "model-f32.gguf").exists():
        subprocess.run([sys.executable, "bench/peer/llama.py", "--convert", ".assets/SmolLM2-135M-Instruct.Q4_1.gguf",
                        str(folder / "model-f32.gguf")], check=True, stderr=subprocess.DEVNULL)
    return json.loads((folder / "tokens.json").read_text(encoding="utf8"))


def flops(rows: list[dict], is_lora: bool) -> float:
    """What one forward and backward of `rows` needs: products with the layers' weights for each token and with the
    vocabulary's for each trained one (frozen weights have no gradient), scores below the diagonal within a row, adapters.
    Nothing for padding, for logits nobody asks for, or for what is computed twice."""
    c = json.loads(pathlib.Path(MODEL, "config.json").read_text(encoding="utf8"))
    width, inner = c["hidden_size"], c["intermediate_size"]
    heads = c["num_attention_heads"] * c["head_dim"]
    keys = c["num_key_value_heads"] * c["head_dim"]
    shapes = [(width, heads), (width, keys), (width, keys), (heads, width), (width, inner), (width, inner), (inner, width)]
    passes = 2 if is_lora else 3  # forward, gradient of the input, gradient of the weight
    per_token = passes * sum(2 * i * o for i, o in shapes) + (3 * sum(2 * 8 * (i + o) for i, o in shapes) if is_lora else 0)
    tokens = sum(len(row["input_ids"]) for row in rows)
    trained = sum(label != IGNORED for row in rows for label in row["labels"])
    scores = sum(3 * 2 * heads * len(row["input_ids"]) ** 2 for row in rows)
    return c["num_hidden_layers"] * (per_token * tokens + scores) + passes * 2 * width * c["vocab_size"] * trained
