#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records the inverse frequencies and attention factors of transformers' rotary embeddings."""

import json
import pathlib

import torch
import transformers
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
CASES = [  # rope_type, max_position_embeddings, head_dim, theta, the kind's own fields, sequence length
    ("default", 2048, 64, 1e4, {}, 100),
    ("default", 8192, 64, 1e5, {}, 100),
    ("linear", 4096, 32, 1e4, {"factor": 4.0}, 100),
    ("dynamic", 2048, 64, 1e4, {"factor": 2.0}, 100),
    ("dynamic", 2048, 64, 1e4, {"factor": 2.0}, 5000),
    ("dynamic", 64, 16, 5e5, {"factor": 4.0}, 65),
    ("llama3", 131072, 128, 5e5, LLAMA3, 100),
    ("llama3", 131072, 64, 5e5, {**LLAMA3, "factor": 32.0}, 100),
    ("yarn", 32768, 128, 1e6, {"factor": 4.0, "original_max_position_embeddings": 8192}, 100),
    ("yarn", 32768, 64, 1e4, {"factor": 16.0, "original_max_position_embeddings": 2048, "truncate": False}, 100),
    ("yarn", 32768, 64, 1e4, {"factor": 8.0, "original_max_position_embeddings": 4096, "beta_fast": 16.0,
                              "beta_slow": 2.0, "attention_factor": 1.125}, 100),
    ("yarn", 163840, 64, 1e4, {"factor": 40.0, "original_max_position_embeddings": 4096, "mscale": 1.0,
                               "mscale_all_dim": 0.75}, 100),
    ("linear", 4096, 32, 1e4, {"factor": 4.0, "partial_rotary_factor": 0.5}, 100),
]


def record(rope_type, max_positions, head_dim, theta, fields, length):
    config = transformers.LlamaConfig(
        hidden_size=2 * head_dim, num_attention_heads=2, head_dim=head_dim, max_position_embeddings=max_positions,
        rope_parameters={"rope_type": rope_type, "rope_theta": theta, **fields})
    if rope_type == "default":
        frequencies, factor = LlamaRotaryEmbedding.compute_default_rope_parameters(config)
    else:
        frequencies, factor = ROPE_INIT_FUNCTIONS[rope_type](config, torch.device("cpu"), seq_len=length)
    return {
        "config": {"rope_type": rope_type, "max_position_embeddings": max_positions, "head_dim": head_dim,
                   "rope_theta": theta, **fields},
        "length": length, "attention_factor": factor, "inv_freq": [float(f"{f:.9g}") for f in frequencies.tolist()]}


def main():
    out = pathlib.Path(__file__).parents[2] / "tests/fixtures/golden/rope.json"
    cases = [record(*case) for case in CASES]
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    out.write_text(json.dumps({"versions": versions, "seed": None, "cases": cases}, separators=(",", ":")) + "\n")
    print(f"{out}: {len(cases)} cases")


if __name__ == "__main__":
    main()
