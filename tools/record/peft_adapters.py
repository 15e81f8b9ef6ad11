# SPDX-License-Identifier: Apache-2.0
"""Adapters written by peft for the golden models, and the logits they give.

Writes tests/fixtures/golden/peft/<case>/ and tests/fixtures/golden/peft_adapters.json.
Usage: python -P peft_adapters.py [ROOT]
"""

import json
import os
import shutil
import sys

import peft
import torch
import transformers
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

SEED = 77
IDS = [5, 17, 42, 3, 79, 8, 8, 61, 30]
CASES = {
    "rslora_patterns": ("golden-qwen2", dict(r=2, lora_alpha=3, target_modules="all-linear", use_rslora=True,
                                             rank_pattern={"self_attn.q_proj": 4}, alpha_pattern={"down_proj": 5})),
    "saved_tied": ("golden-llama", dict(r=3, lora_alpha=6, target_modules=["q_proj", "o_proj"],
                                        layers_to_transform=[1], modules_to_save=["embed_tokens"],
                                        ensure_weight_tying=True)),
    "saved_untied": ("golden-mistral", dict(r=2, lora_alpha=4, target_modules=r".*layers\.0\.(mlp|self_attn)\..*_proj",
                                            modules_to_save=["embed_tokens", "lm_head"])),
}


def run(root: str, name: str) -> dict:
    folder, options = CASES[name]
    base = AutoModelForCausalLM.from_pretrained(os.path.join(root, "tests/fixtures/models", folder),
                                                dtype=torch.float32, attn_implementation="eager")
    model = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", **options))
    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for key, parameter in sorted(model.named_parameters()):
            if parameter.requires_grad:
                noise = 0.1 * torch.randn(parameter.shape, generator=generator)
                parameter.copy_(noise if "lora_" in key else parameter + noise)
        logits = model(torch.tensor([IDS])).logits[0, -1]
    out = os.path.join(root, "tests/fixtures/golden/peft", name)
    shutil.rmtree(out, ignore_errors=True)
    model.save_pretrained(out)
    os.remove(os.path.join(out, "README.md"))
    path = os.path.join(out, "adapter_config.json")
    with open(path) as file:
        config = json.load(file)
    config["base_model_name_or_path"] = folder
    if isinstance(config["target_modules"], list):
        config["target_modules"].sort()  # peft keeps a set
    with open(path, "w") as file:
        json.dump(config, file, indent=2)
        file.write("\n")
    os.chmod(os.path.join(out, "adapter_model.safetensors"), 0o644)
    return {"model": folder, "logits": [round(value, 6) for value in logits.tolist()]}


def main(root: str) -> None:
    torch.set_num_threads(1)
    record = {"made_by": "tools/record/peft_adapters.py", "seed": SEED,
              "versions": {"torch": torch.__version__, "transformers": transformers.__version__,
                           "peft": peft.__version__},
              "ids": IDS, "cases": {name: run(root, name) for name in CASES}}
    with open(os.path.join(root, "tests/fixtures/golden/peft_adapters.json"), "w") as file:
        json.dump(record, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else ".")
