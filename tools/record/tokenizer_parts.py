#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what single parts of Hugging Face's tokenizers do, for tests/data/tokenizer_*_test.cpp.

Writes tests/fixtures/golden/tokenizer_parts.json: for normalizers, pre-tokenizers, decoders and small BPE
tokenizers the JSON of the part and what it makes of each input. Pieces of a byte-level pre-tokenizer are recorded as
the bytes they spell, since that is how duoka holds them.
"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# A neighbour of this file has the name of the package it uses.
sys.path = [entry for entry in sys.path if pathlib.Path(entry or ".").resolve() != ROOT / "tools" / "record"]

import tokenizers  # noqa: E402

TEXTS = [
    "", " ", "a", "Hello, World!", "  two  spaces ", "tab\tnew\nline\r\nend", "it's we'll I'M they'RE 'sd", "3.14 1,000 12345 ½ ² ٣٤",
    "你好，世界。 こんにちは", "e\u0301 é ﬁ Å ①", "🦙👨‍👩‍👧 ❤️", "a\u00a0b\u3000c\u200bd\x85e\u2028f", "$+<=>^`|~ a_b-c (d) [e]{f}",
    "ÀÉÎ ÑANDÚ ŒUVRE straße İI", "▁a▁▁b ▁", "\n\n\n  x\n", "the the  cat\u0327s", "мир Привет", "각 가", "x" * 40 + " " * 9 + "y",
]


def components(kind, parts):
    """name -> the recording of one part."""
    shell = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
             "pre_tokenizer": None, "post_processor": None, "decoder": None,
             "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}
    for name, part in parts.items():
        yield name, part, tokenizers.Tokenizer.from_str(json.dumps({**shell, kind: part}))


def sequence(key, *parts):
    return {"type": "Sequence", key: list(parts)}


def regex(pattern):
    return {"Regex": pattern}


NORMALIZERS = {
    "NFC": {"type": "NFC"}, "NFD": {"type": "NFD"}, "NFKC": {"type": "NFKC"}, "NFKD": {"type": "NFKD"},
    "Lowercase": {"type": "Lowercase"},
    "Strip both": {"type": "Strip", "strip_left": True, "strip_right": True},
    "Strip left": {"type": "Strip", "strip_left": True, "strip_right": False},
    "Strip right": {"type": "Strip", "strip_left": False, "strip_right": True},
    "Prepend": {"type": "Prepend", "prepend": "▁"},
    "Replace a text": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
    "Replace by nothing": {"type": "Replace", "pattern": {"String": "the"}, "content": ""},
    "Replace overlapping": {"type": "Replace", "pattern": {"String": "xx"}, "content": "y"},
    "Replace a pattern": {"type": "Replace", "pattern": regex(r"\s{2,}"), "content": " "},
    "Replace digits": {"type": "Replace", "pattern": regex(r"\d"), "content": "#"},
    "Sequence": sequence("normalizers", {"type": "NFD"}, {"type": "Replace", "pattern": regex(r"\p{Mn}"), "content": ""},
                         {"type": "Lowercase"}, {"type": "NFC"}),
    "Llama": sequence("normalizers", {"type": "Prepend", "prepend": "▁"},
                      {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}),
    "Empty sequence": sequence("normalizers"),
}

BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


def split(pattern, behavior, invert=False):
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def metaspace(scheme, is_split=True):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": is_split}


PRE_TOKENIZERS = {
    "ByteLevel": BYTES,
    "ByteLevel with a space": {**BYTES, "add_prefix_space": True},
    "ByteLevel whole": {**BYTES, "use_regex": False},
    "Whitespace": {"type": "Whitespace"},
    "WhitespaceSplit": {"type": "WhitespaceSplit"},
    "Digits apart": {"type": "Digits", "individual_digits": True},
    "Digits together": {"type": "Digits", "individual_digits": False},
    **{f"Punctuation {b}": {"type": "Punctuation", "behavior": b}
       for b in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")},
    **{f"Split {b}{' inverted' * i}": split(regex(r"[\s,a]"), b, i)
       for b in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous") for i in (False, True)},
    "Split at a text": split({"String": "a"}, "Isolated"),
    "Split by classes": split(regex(r"\p{L}+|\p{N}{1,3}|\s+(?!\S)|\s+|[^\s\p{L}\p{N}]+"), "Isolated"),
    "Split word characters": split(regex(r"\w+|\S"), "Isolated"),
    "Metaspace always": metaspace("always"),
    "Metaspace first": metaspace("first"),
    "Metaspace never": metaspace("never"),
    "Metaspace whole": metaspace("always", False),
    "Digits then bytes": sequence("pretokenizers", {"type": "Digits", "individual_digits": True}, BYTES),
    "Punctuation then words": sequence("pretokenizers", {"type": "Punctuation", "behavior": "Isolated"},
                                       {"type": "WhitespaceSplit"}),
    "Split then bytes": sequence("pretokenizers", split(regex(r"\s+|\p{L}+"), "Isolated"), {**BYTES, "use_regex": False}),
    "Nested": sequence("pretokenizers", sequence("pretokenizers", {"type": "WhitespaceSplit"}),
                       {"type": "Digits", "individual_digits": False}),
}

TOKENS = [
    [], ["a"], ["Hello", "Ġworld", "!"], ["▁Hello", "▁world", "▁"], ["▁", "▁a"], ["<0xE4>", "<0xBD>", "<0xA0>", "a"],
    ["<0x41>", "b", "<0x0A>"], ["<0xZZ>", "<0x4>", "<0x041>"], [" a", "b ", " "], ["ä½ł", "å¥", "½"], ["a", "▁b", "c▁d"],
    ["<|end|>", "Ġ<|end|>"], ["Ċ", "ĉ", "Ġ"], ["你", "好"], ["▁▁▁", "x"],
]
LLAMA_DECODER = sequence("decoders", {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
                         {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0})
DECODERS = {
    "none": None,
    "ByteLevel": BYTES,
    "Replace": {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
    "ByteFallback": {"type": "ByteFallback"},
    "Fuse": {"type": "Fuse"},
    "Strip": {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    # Both at once is left out: the library panics at a token of nothing else.
    "Strip two": {"type": "Strip", "content": "▁", "start": 2, "stop": 0},
    "Strip the end": {"type": "Strip", "content": "▁", "start": 0, "stop": 1},
    "Metaspace always": metaspace("always"),
    "Metaspace never": metaspace("never"),
    "Llama": LLAMA_DECODER,
}

VOCAB = ["a", "b", "c", "d", "ab", "bc", "abc", "cd", "abcd", "<unk>", "aa", "aaaa", "ba"]
MERGES = [["b", "c"], ["a", "b"], ["a", "bc"], ["c", "d"], ["abc", "d"], ["a", "a"], ["aa", "aa"], ["b", "a"]]
FALLBACK = [f"<0x{i:02X}>" for i in range(256)]


def bpe(vocab=VOCAB, merges=MERGES, **flags):
    return {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
            "vocab": {token: i for i, token in enumerate(vocab)}, "merges": merges, **flags}


MODELS = {
    "plain": bpe(),
    "unknown": bpe(unk_token="<unk>"),
    "unknown fused": bpe(unk_token="<unk>", fuse_unk=True),
    "bytes": bpe([*VOCAB, *FALLBACK], byte_fallback=True),
    "bytes and unknown": bpe([*VOCAB, *FALLBACK[:128]], byte_fallback=True, unk_token="<unk>"),
    "whole words": bpe([*VOCAB, "dcba"], ignore_merges=True),
    "whole words without merges": bpe([*VOCAB, "dcba"]),
    "no merges": bpe(merges=[]),
    "ranks reversed": bpe(merges=MERGES[::-1]),
}
WORDS = ["", "a", "abc", "abcd", "abcdabcd", "bcd", "cdcd", "dcba", "aaaaa", "aaaaaaaa", "abab", "bcbc", "xay", "xxay", "你a", "ab你好cd",
         "xyz", "bca", "baba", "a" * 33, "abcdx" * 7, "é", "\n", "<unk>", "ab<0x41>"]


def flags(content, index, **more):
    return {"id": index, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": False, **more}


ADDED = {
    "plain": ([flags("<a>", 13), flags("<ab>", 14)], None),
    "longest first": ([flags("ab", 4), flags("abcd", 8), flags("bcd", 13)], None),
    "single word": ([flags("ab", 4, single_word=True)], None),
    "strips left": ([flags("<s>", 13, lstrip=True)], None),
    "strips right": ([flags("<s>", 13, rstrip=True)], None),
    "strips both": ([flags("<s>", 13, lstrip=True, rstrip=True), flags("<t>", 14, rstrip=True)], None),
    "normalised": ([flags("ABC", 13, normalized=True), flags("<S>", 14)], {"type": "Lowercase"}),
    "special": ([flags("<s>", 13, special=True), flags("</s>", 14, special=True, rstrip=True)], None),
    "of the vocabulary": ([flags("abc", 6), flags("<unk>", 9, special=True)], None),
    "unicode": ([flags("你好", 13), flags("é", 14, single_word=True)], None),
}
ADDED_TEXTS = ["", "<a>", "a<a>b<ab>c", "<a><a>", "abcd", "xabcdabx", "ab ab", "ab,ab xab abx ab", "a <s> b", "  <s>  <s>  ", "<s>\n\t<t> a",
               "ABC abc <S> <s>", "<s>a</s> b</s>", "<unk>abc<unk", "你好a 你 好 é aé é", "<s", "<<s>>", "_ab_ 1ab ab1 ab.", " ", "d<t><s> d"]


def byte_alphabet():
    """The character that spells each byte, as GPT-2 made it."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = [i for i in range(256) if i not in kept]
    return {chr(c): c for c in kept} | {chr(256 + n): c for n, c in enumerate(other)}


def pieces(name, tokenizer, text):
    found = [piece for piece, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text)]
    if "ytes" not in name and not name.startswith("ByteLevel"):
        return found
    alphabet = byte_alphabet()
    return [bytes(alphabet[c] for c in piece).decode("utf8") for piece in found]


def record_bpe(cases, texts):
    for name, part, tokenizer in cases:
        yield {"name": name, "json": part, "cases": [[text, tokenizer.encode(text, add_special_tokens=False).ids]
                                                      for text in texts]}


def added_tokenizers():
    for name, (tokens, normalizer) in ADDED.items():
        whole = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens, "normalizer": normalizer,
                 "pre_tokenizer": None, "post_processor": None, "decoder": None, "model": bpe(unk_token="<unk>")}
        yield name, whole, tokenizers.Tokenizer.from_str(json.dumps(whole))


def main():
    golden = {
        "tokenizers": tokenizers.__version__,
        "normalizers": [{"name": name, "json": part, "cases": [[text, made.normalizer.normalize_str(text)] for text in TEXTS]}
                        for name, part, made in components("normalizer", NORMALIZERS)],
        "pre_tokenizers": [{"name": name, "json": part, "cases": [[text, pieces(name, made, text)] for text in TEXTS]}
                           for name, part, made in components("pre_tokenizer", PRE_TOKENIZERS)],
        "decoders": [{"name": name, "json": part,
                      "cases": [[tokens, made.decoder.decode(tokens) if part else " ".join(tokens)] for tokens in TOKENS]}
                     for name, part, made in components("decoder", DECODERS)],
        "models": list(record_bpe(components("model", MODELS), WORDS)),
        "added_tokens": list(record_bpe(added_tokenizers(), ADDED_TEXTS)),
    }
    target = ROOT / "tests" / "fixtures" / "golden" / "tokenizer_parts.json"
    target.write_text(json.dumps(golden, ensure_ascii=False, separators=(",", ":")) + "\n", "utf8")
    print(target.relative_to(ROOT), target.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
