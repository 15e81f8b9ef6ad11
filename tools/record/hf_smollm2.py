# SPDX-License-Identifier: Apache-2.0
"""Writes .assets/hf-smollm2 (config.json, model.safetensors in f32) from the SmolLM2 GGUF file, with transformers.

The tokenizer's files are written too unless they are there already. Usage: python -P hf_smollm2.py [ASSETS]
"""

import os
import sys

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"


def main(assets: str) -> None:
    out = os.path.join(assets, "hf-smollm2")
    os.makedirs(out, exist_ok=True)
    model = AutoModelForCausalLM.from_pretrained(assets, gguf_file=NAME, dtype=torch.float32)
    del model.config.quantization_config
    tied = model.config.tie_word_embeddings
    tensors = {k: v.contiguous() for k, v in model.state_dict().items() if not (tied and k == "lm_head.weight")}
    save_file(tensors, os.path.join(out, "model.safetensors"), metadata={"format": "pt"})
    model.config.save_pretrained(out)
    if not os.path.exists(os.path.join(out, "tokenizer.json")):
        AutoTokenizer.from_pretrained(assets, gguf_file=NAME).save_pretrained(out)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else ".assets")
