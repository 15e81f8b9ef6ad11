#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes define-the-word rows (Alpaca form) of WordNet 3.0's glosses.

    define_the_word.py WORDNET_FOLDER OUT_FOLDER

Writes wordnet.jsonl (all 117,659 rows), train.jsonl and heldout.jsonl: a fixed choice by the hash of the
word, so that no held-out word is trained in any form.
"""
import hashlib
import json
import os
import sys

WORDNET_SHA256 = "aad92fab69d212fd6a92272f8fa0f235e76d46b68be7c13f2e28bb16843c27bb"
NUM_TRAIN, NUM_HELDOUT = 4000, 64


def rows(folder):
    for part in ("noun", "verb", "adj", "adv"):
        with open(os.path.join(folder, "data." + part), encoding="utf8") as lines:
            for line in lines:
                if line.startswith("  "):  # the licence
                    continue
                head, gloss = line.rstrip().split(" | ", 1)
                word = head.split()[4].replace("_", " ")
                yield word, {"instruction": "Define the word.", "input": f"{word} ({part})", "output": gloss.strip()}


def place(word):
    return int.from_bytes(hashlib.sha256(word.lower().encode()).digest()[:8], "big")


def write(path, chosen):
    temporary = path + ".part"
    with open(temporary, "w", encoding="utf8") as out:
        for row in chosen:
            out.write(json.dumps(row) + "\n")
    os.replace(temporary, path)


def main(source, target):
    os.makedirs(target, exist_ok=True)
    everything = list(rows(source))
    write(os.path.join(target, "wordnet.jsonl"), [row for _, row in everything])
    with open(os.path.join(target, "wordnet.jsonl"), "rb") as made:
        found = hashlib.sha256(made.read()).hexdigest()
    if found != WORDNET_SHA256:
        sys.exit(f"wordnet.jsonl: sha256 is {found}, wanted {WORDNET_SHA256}; is this WordNet 3.0?")
    by_place = sorted(everything, key=lambda item: (place(item[0]), item[1]["input"]))
    heldout_words, heldout = set(), []
    for word, row in by_place:
        if len(heldout) == NUM_HELDOUT:
            break
        if word.lower() not in heldout_words:
            heldout_words.add(word.lower())
            heldout.append(row)
    rest = [row for word, row in by_place if word.lower() not in heldout_words]
    write(os.path.join(target, "train.jsonl"), rest[:NUM_TRAIN])
    write(os.path.join(target, "heldout.jsonl"), heldout)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
