#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records the token ids that Hugging Face's tokenizers gives, for tests/data/tokenizer_golden_test.cpp.

Writes tests/fixtures/golden/tokenizer_ids.json: hashes of the ids of 20,000 generated texts for each vocabulary,
and of fewer for small tokenizers in which one component is replaced. The texts themselves are not stored: the test
generates them again from the seed and the tables in the file.

The GGUF vocabularies of llama.cpp are those that scripts/test fetches into .assets/vocabs. Their pre-tokenizers are
written out here as the models' published tokenizer.json files have them. transformers' own GGUF conversion is compared
too; it does not know "smollm", nor that Llama 3 takes whole words first.
"""

import json
import pathlib
import sys
import unicodedata

ROOT = pathlib.Path(__file__).resolve().parents[2]
# This file has the name of the package it uses.
sys.path = [entry for entry in sys.path if pathlib.Path(entry or ".").resolve() != ROOT / "tools" / "record"]

import gguf  # noqa: E402
import tokenizers  # noqa: E402
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers  # noqa: E402

FIXTURES = ROOT / "tests" / "fixtures"
ASSETS = ROOT / ".assets"
SEED = 20260731
NUM_TEXTS = 20_000
CHUNK = 100
NUM_COMPONENT_TEXTS = 2_000

FRAGMENTS = [
    "the", " the", " cat", " sat on", "The", " quick", "brown", " fox", "It's", " we'll", " I'M", " don't", "they'RE",
    "a", "b", " x", "Z", "é", "e\u0301", "ﬁ", "①", "½", "²", "Å", "각", "ſ", "İ", "ß", "Ω",
    "1", "12", "123", " 1234", "3.14", "0x1F", "１２", "٣٤", " 2026-12-02",
    " ", "  ", "    ", "\n", "\n\n", " \n", "\t", "\r\n", "\u00a0", "\u3000", "\u200b", "\u180e", "\x85", "\u2028",
    ".", ",", "!", "...", "?!", "--", "(", ")", "[", "]", "{", "}", "<", ">", "=", "==", "+", "$", "^", "`", "~", "|",
    "for (int i = 0; i < n; ++i) {\n", "def f(x):\n    return x\n", "std::vector<int> v;", "\n\n\n  }\n", "// TODO\n",
    "SELECT * FROM t;", "<div class=\"a\">", "</div>", "https://a.b/c?d=e&f=g", "#include <x>\n",
    "你好", "世界", "中文分词", "，", "。", "「引用」", "多卡", "これは", "テスト", "です", "한국어", "안녕", "мир", "Привет",
    "مرحبا", "שלום", "नमस्ते", "ไทย", "Tiếng Việt", "Ελληνικά",
    "🦙", "😀", "👨‍👩‍👧", "🇨🇳", "❤️", "👍🏽", "\u0301", "\u0327", "\u200d", "\ufeff", "\x00", "\x01", "\x7f", "▁", "▁▁", "Ġ", "Ċ",
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|im_start|>user\n", "<|begin_of_text|>", "<|eot_id|>", "<|bos|>",
    "<|im_start", "|>", "<s>", "</s>", "<unk>", "<0x41>",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "abababababababababababababab",
    "Donaudampfschifffahrtsgesellschaftskapitänskajütenschlüssel", "==================================================",
]

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def assigned_ranges():
    """Runs of assigned characters; Python 3.11's table is Unicode 14's, the newest that all libraries share."""
    assert unicodedata.unidata_version == "14.0.0", "record with Python 3.11"
    ranges = []
    for code in range(0x80, 0x110000):
        if unicodedata.category(chr(code)) in ("Cn", "Cs", "Co"):
            continue
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return ranges


class Generator:
    """Texts from a linear congruential generator; the C++ test has the same."""

    def __init__(self, seed, ranges):
        self.state = seed
        self.ranges = ranges

    def below(self, limit):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % limit

    def text(self):
        parts = []
        for _ in range(1 + self.below(16)):
            if self.below(10) < 8:
                parts.append(FRAGMENTS[self.below(len(FRAGMENTS))])
                continue
            low, high = self.ranges[self.below(len(self.ranges))]
            for _ in range(1 + self.below(3)):
                parts.append(chr(low + self.below(high - low + 1)))
        return "".join(parts)


def hash_ids(encodings):
    """FNV-1a over whole ids, each text closed by -1."""
    value = 0xCBF29CE484222325
    for ids in encodings:
        for item in [*ids, 0xFFFFFFFF]:
            value = (value ^ item) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def record(tokenizer, texts):
    ids = [encoding.ids for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]
    return [hash_ids(ids[i : i + CHUNK]) for i in range(0, len(ids), CHUNK)]


def digits_and_words():
    return pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )


def split_by(pattern):
    return pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
    )


def field(reader, key):
    found = reader.get_field(key)
    return found.contents() if found else None


def from_gguf(path, pre, normalizer=None, ignore_merges=False):
    reader = gguf.GGUFReader(path)
    tokens = field(reader, "tokenizer.ggml.tokens")
    merges = [tuple(merge.split(" ")) for merge in field(reader, "tokenizer.ggml.merges")]
    vocab = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab, merges, ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre
    if normalizer:
        tokenizer.normalizer = normalizer
    types = field(reader, "tokenizer.ggml.token_type")
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t, k in zip(tokens, types) if k == 3])
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t, k in zip(tokens, types) if k == 4])
    return tokenizer


def compare_transformers(path, reference, texts):
    """Texts of `texts` that transformers' GGUF conversion encodes otherwise."""
    try:
        from transformers import AutoTokenizer

        other = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)._tokenizer
    except Exception as error:  # a vocabulary without a model is not always taken
        return f"not loaded: {type(error).__name__}"
    theirs = other.encode_batch(texts, add_special_tokens=False)
    ours = reference.encode_batch(texts, add_special_tokens=False)
    return sum(a.ids != b.ids for a, b in zip(theirs, ours))


def vocabularies():
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    yield "tiny-llama", "cases/models/tiny-llama/tokenizer.json", None
    yield "tok-bytefallback", "cases/models/tok-bytefallback/tokenizer.json", None
    yield "smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", lambda p: from_gguf(p, digits_and_words())
    yield "llama-bpe", "vocabs/ggml-vocab-llama-bpe.gguf", lambda p: from_gguf(p, split_by(LLAMA3), ignore_merges=True)
    yield "qwen2", "vocabs/ggml-vocab-qwen2.gguf", lambda p: from_gguf(p, split_by(QWEN2), normalizers.NFC())
    yield "gpt-2", "vocabs/ggml-vocab-gpt-2.gguf", lambda p: from_gguf(p, byte_level)


def record_vocabularies(texts):
    rows = []
    for name, path, make in vocabularies():
        full = (ASSETS if make else FIXTURES) / path
        if not full.exists():
            sys.exit(f"{full} is missing: scripts/test fetches it")
        tokenizer = make(full) if make else Tokenizer.from_file(str(full))
        row = {"name": name, "path": path, "in_assets": bool(make), "hashes": record(tokenizer, texts)}
        if make:
            row["transformers_gguf_differs"] = compare_transformers(full, tokenizer, texts)
        print(name, row.get("transformers_gguf_differs", ""), flush=True)
        rows.append(row)
    return rows


def split(pattern, behavior, invert=False):
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def sequence(*parts):
    return {"type": "Sequence", "pretokenizers": list(parts)}


BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
BYTES_GPT2 = {**BYTES, "use_regex": True}
LLAMA_SPACES = {
    "type": "Sequence",
    "normalizers": [
        {"type": "Prepend", "prepend": "▁"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
    ],
}


def metaspace(scheme, is_split=True):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": is_split}


def added(content, **flags):
    token = {"content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}
    return {**token, **flags}


# Each replaces members of a small tokenizer: (base model, {member: value}, added tokens).
COMPONENTS = {
    **{f"normalizer {form}": ("tiny-llama", {"normalizer": {"type": form}}, []) for form in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase")},
    "normalizer Strip": ("tiny-llama", {"normalizer": {"type": "Strip", "strip_left": True, "strip_right": True}}, []),
    "normalizer Replace regex": (
        "tiny-llama",
        {"normalizer": {"type": "Replace", "pattern": {"Regex": r"\s{2,}|\w\d"}, "content": " "}},
        [],
    ),
    "prefix space": ("tiny-llama", {"pre_tokenizer": {**BYTES_GPT2, "add_prefix_space": True}}, []),
    "no pattern": ("tiny-llama", {"pre_tokenizer": BYTES}, []),
    "pattern llama3": ("tiny-llama", {"pre_tokenizer": sequence(split({"Regex": LLAMA3}, "Isolated"), BYTES)}, []),
    "pattern o200k": ("tiny-llama", {"pre_tokenizer": sequence(split({"Regex": O200K}, "Isolated"), BYTES)}, []),
    "pattern classes": (
        "tiny-llama",
        {"pre_tokenizer": sequence(split({"Regex": r"[^\S\n]+|[\s\d]|\w+|\W"}, "Isolated"), BYTES)},
        [],
    ),
    "inverted": ("tiny-llama", {"pre_tokenizer": sequence(split({"Regex": r"\p{L}+|[0-9]"}, "Removed", True), BYTES)}, []),
    **{
        f"split {behavior}": (
            "tiny-llama",
            {"pre_tokenizer": sequence(split({"Regex": r"[\p{P} ]"}, behavior), BYTES)},
            [],
        )
        for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")
    },
    "split at a string": ("tiny-llama", {"pre_tokenizer": sequence(split({"String": "th"}, "MergedWithNext"), BYTES)}, []),
    "digits together": ("tiny-llama", {"pre_tokenizer": sequence({"type": "Digits", "individual_digits": False}, BYTES)}, []),
    "digits apart": ("tiny-llama", {"pre_tokenizer": sequence({"type": "Digits", "individual_digits": True}, BYTES_GPT2)}, []),
    "punctuation": ("tiny-llama", {"pre_tokenizer": sequence({"type": "Punctuation", "behavior": "Contiguous"}, BYTES)}, []),
    "whitespace": ("tiny-llama", {"pre_tokenizer": sequence({"type": "Whitespace"}, BYTES)}, []),
    "whitespace split": ("tiny-llama", {"pre_tokenizer": sequence({"type": "WhitespaceSplit"}, BYTES)}, []),
    "steps behind bytes": (
        "tiny-llama",
        {
            "pre_tokenizer": sequence(
                {"type": "Punctuation", "behavior": "Contiguous"},
                BYTES_GPT2,
                {"type": "Digits", "individual_digits": False},
                split({"Regex": "[0-9][0-9][0-9]"}, "Isolated"),
            )
        },
        [],
    ),
    "metaspace always": ("tok-bytefallback", {"normalizer": None, "pre_tokenizer": metaspace("always")}, []),
    "metaspace first": ("tok-bytefallback", {"normalizer": None, "pre_tokenizer": metaspace("first", False)}, []),
    "metaspace never": ("tok-bytefallback", {"normalizer": None, "pre_tokenizer": metaspace("never")}, []),
    "added tokens": (
        "tiny-llama",
        {},
        [
            added("cat", single_word=True),
            added("sat", lstrip=True),
            added("fox", rstrip=True),
            added("quick", lstrip=True, rstrip=True, special=True),
            added("  "),
            added("    "),
            added("世界"),
            added("世"),
        ],
    ),
    "added tokens, normalised": (
        "tiny-llama",
        {"normalizer": {"type": "Lowercase"}},
        [added("THE", normalized=True), added("Привет", normalized=True), added("It's"), added("i'm", normalized=True)],
    ),
    "added tokens beside spaces": (
        "tok-bytefallback",
        {"normalizer": LLAMA_SPACES},
        [added("cat", normalized=True), added("你好", special=True), added("fox", normalized=True, lstrip=True)],
    ),
}


def component_tokenizer(base, members, tokens):
    data = json.loads((FIXTURES / "cases" / "models" / base / "tokenizer.json").read_text("utf8"))
    data.update(members)
    first = 1 + max(max(data["model"]["vocab"].values()), max(t["id"] for t in data["added_tokens"]))
    data["added_tokens"] += [{"id": first + i, **token} for i, token in enumerate(tokens)]
    return Tokenizer.from_str(json.dumps(data))


def record_components(texts):
    rows = []
    for name, (base, members, tokens) in COMPONENTS.items():
        hashes = record(component_tokenizer(base, members, tokens), texts)
        rows.append({"name": name, "base": base, "members": members, "added_tokens": tokens, "hashes": hashes})
    return rows


def main():
    ranges = assigned_ranges()
    generator = Generator(SEED, ranges)
    texts = [generator.text() for _ in range(NUM_TEXTS)]
    golden = {
        "tokenizers": tokenizers.__version__,
        "seed": SEED,
        "num_texts": NUM_TEXTS,
        "num_component_texts": NUM_COMPONENT_TEXTS,
        "chunk": CHUNK,
        "fragments": FRAGMENTS,
        "ranges": ranges,
        "first_texts": texts[:3],
        "vocabularies": record_vocabularies(texts),
        "components": record_components(texts[:NUM_COMPONENT_TEXTS]),
    }
    target = FIXTURES / "golden" / "tokenizer_ids.json"
    target.write_text(json.dumps(golden, ensure_ascii=False, separators=(",", ":")) + "\n", "utf8")
    print(target, target.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
