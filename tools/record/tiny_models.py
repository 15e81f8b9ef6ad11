# SPDX-License-Identifier: Apache-2.0
"""Random tiny models of each family and what transformers makes of them: logits, loss and gradients.

Writes tests/fixtures/models/golden-*/ (weights in bf16, so that f32 and the file hold the same numbers) and
tests/fixtures/golden/tiny_models.json. A case is a model folder, keys of config.json to put on top of the folder's
own, and the rows that were run one by one in f32 with eager attention. Usage: python -P tiny_models.py [ROOT]
"""

import json
import math
import os
import shutil
import sys
import tempfile

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

SEED = 20261202
SHAPE = dict(vocab_size=80, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=16, max_position_embeddings=64, rms_norm_eps=1e-5, bos_token_id=0,
             eos_token_id=1, dtype="bfloat16")
MODELS = {
    "llama": dict(tie_word_embeddings=True),
    "mistral": dict(tie_word_embeddings=False, sliding_window=8),
    "qwen2": dict(tie_word_embeddings=True, use_sliding_window=True, sliding_window=6, max_window_layers=1,
                  head_dim=8),
    "qwen3": dict(tie_word_embeddings=False, rms_norm_eps=1e-6),
}
# Keys put on top of a folder's config.json; None takes a key away. Old and new spelling of rope's scaling both occur.
CASES = {
    "llama": ("llama", {}),
    "mistral": ("mistral", {}),
    "qwen2": ("qwen2", {}),
    "qwen3": ("qwen3", {}),
    "linear": ("llama", {"rope_parameters": None, "rope_theta": 10000.0,
                         "rope_scaling": {"type": "linear", "factor": 2.5}}),
    "dynamic": ("llama", {"rope_parameters": None, "rope_theta": 10000.0, "max_position_embeddings": 16,
                          "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}),
    "llama3": ("qwen3", {"rope_parameters": {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0,
                                             "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                             "original_max_position_embeddings": 64}}),
    "yarn": ("mistral", {"rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
                                             "original_max_position_embeddings": 16}}),
    "yarn_options": ("llama", {"rope_parameters": None, "rope_theta": 10000.0,
                               "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 16.0,
                                                "beta_slow": 2.0, "mscale": 0.8, "mscale_all_dim": 0.5,
                                                "original_max_position_embeddings": 16}}),
}


def make_model(family: str, out: str) -> None:
    """Weights of a size that makes attention matter: matrices N(0, 0.25), norms near 1, biases near 0."""
    shape = {**SHAPE, **MODELS[family]}
    config = AutoConfig.for_model(family, **shape)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    generator = torch.Generator().manual_seed(SEED + sorted(MODELS).index(family))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            norm = name.endswith("norm.weight")
            value = 1 + 0.2 * noise if norm else 0.25 * noise
            parameter.copy_(value)
    shutil.rmtree(out, ignore_errors=True)
    model.save_pretrained(out)


def make_rows() -> list:
    generator = torch.Generator().manual_seed(SEED)
    rows = []
    for length in (23, 9, 17):
        ids = torch.randint(0, SHAPE["vocab_size"], (length,), generator=generator)
        trained = torch.rand(length, generator=generator) < 0.6
        labels = torch.where(trained, ids, torch.full_like(ids, -100))
        rows.append({"ids": ids.tolist(), "labels": labels.tolist()})
    return rows


def load(folder: str, overrides: dict):
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(folder, copy, dirs_exist_ok=True)
        path = os.path.join(copy, "config.json")
        with open(path) as file:
            config = json.load(file)
        config.update(overrides)
        with open(path, "w") as file:
            json.dump({k: v for k, v in config.items() if v is not None}, file)
        return AutoModelForCausalLM.from_pretrained(copy, dtype=torch.float32, attn_implementation="eager")


def run(folder: str, overrides: dict, rows: list) -> dict:
    gradients, logits, loss_sum = {}, [], 0.0
    trained = sum(label != -100 for row in rows for label in row["labels"][1:])
    for row in rows:
        model = load(folder, overrides)  # anew for each row: dynamic scaling remembers the longest sequence seen
        ids, labels = torch.tensor([row["ids"]]), torch.tensor(row["labels"])
        out = model(ids).logits[0]
        nll = torch.nn.functional.cross_entropy(out[:-1], labels[1:], ignore_index=-100, reduction="sum")
        (nll / trained).backward()
        loss_sum += nll.item()
        logits.append([out[i].tolist() for i in (0, len(row["ids"]) // 2, len(row["ids"]) - 1)])
        for name, parameter in model.named_parameters():
            gradients[name] = gradients.get(name, 0) + parameter.grad.double()
    return {"loss": loss_sum / trained, "logits": [[[round(v, 6) for v in line] for line in row] for row in logits],
            "gradients": {name: summary(g) for name, g in gradients.items()}}


def summary(g: torch.Tensor) -> list:
    """Norm, and the product with cos(0), cos(1), ... in row order, which sees order and sign."""
    probe = torch.cos(torch.arange(g.numel(), dtype=torch.float64))
    return [float(f"{v:.9g}") for v in (g.norm().item(), (g.flatten() * probe).sum().item())]


def main(root: str) -> None:
    torch.set_num_threads(1)
    folders = {family: os.path.join(root, "tests/fixtures/models", f"golden-{family}") for family in MODELS}
    for family, folder in folders.items():
        make_model(family, folder)
    rows = make_rows()
    cases = {}
    for name, (family, overrides) in CASES.items():
        cases[name] = {"model": f"golden-{family}", "overrides": overrides,
                       **run(folders[family], overrides, rows)}
        assert math.isfinite(cases[name]["loss"])
    record = {"made_by": "tools/record/tiny_models.py", "seed": SEED,
              "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
              "logits_positions": "first, middle (length // 2), last of each row", "rows": rows, "cases": cases}
    out = os.path.join(root, "tests/fixtures/golden")
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, "tiny_models.json"), "w") as file:
        json.dump(record, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else ".")
