# SPDX-License-Identifier: Apache-2.0
"""The golden llama and qwen2 folders of tests/fixtures/models as GGUF files (F32), as llama.cpp's converter lays them
out: names, reversed dims, and for llama the rows of q and k in pairs. Usage: python -P gguf_models.py [ROOT]
"""

import json
import os
import sys

import gguf
from safetensors.torch import load_file

OUTER = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
BLOCK = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
         "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}


def gguf_name(name: str) -> str:
    stem, ending = name.rsplit(".", 1)
    if not stem.startswith("model.layers."):
        return f"{OUTER[stem]}.{ending}"
    number, part = stem.removeprefix("model.layers.").split(".", 1)
    return f"blk.{number}.{BLOCK[part]}.{ending}"


def paired(rows, heads: int):
    """Element i and i + d/2 of a head become neighbours."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def convert(folder: str, out: str) -> None:
    with open(os.path.join(folder, "config.json")) as file:
        config = json.load(file)
    arch = config["model_type"]
    writer = gguf.GGUFWriter(out, arch)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    for name, tensor in load_file(os.path.join(folder, "model.safetensors")).items():
        rows = tensor.float().numpy()
        if arch == "llama" and ".q_proj." in name:
            rows = paired(rows, config["num_attention_heads"])
        if arch == "llama" and ".k_proj." in name:
            rows = paired(rows, config["num_key_value_heads"])
        writer.add_tensor(gguf_name(name), rows)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    models = os.path.join(sys.argv[1] if len(sys.argv) > 1 else ".", "tests/fixtures/models")
    for family in ("llama", "qwen2"):
        convert(os.path.join(models, f"golden-{family}"), os.path.join(models, f"golden-{family}.gguf"))
