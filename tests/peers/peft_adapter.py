# SPDX-License-Identifier: Apache-2.0
"""Loads an adapter folder with peft and prints, as one line of JSON, the logits after the last id and the adapter's
tensors that peft missed or did not expect. Usage: python -P peft_adapter.py BASE ADAPTER ID...
"""

import json
import sys

import torch
from peft import PeftConfig, PeftModel, get_peft_model, set_peft_model_state_dict
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM


def load_base(path):
    return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager")


def main(base, adapter, *ids):
    # Once by hand, since from_pretrained() does not report the keys; once as users do.
    by_hand = get_peft_model(load_base(base), PeftConfig.from_pretrained(adapter))
    report = set_peft_model_state_dict(by_hand, load_file(f"{adapter}/adapter_model.safetensors"))
    missing = [key for key in report.missing_keys if "lora_" in key or "modules_to_save" in key]
    model = PeftModel.from_pretrained(load_base(base), adapter)
    with torch.no_grad():
        logits = model(torch.tensor([[int(i) for i in ids]])).logits[0, -1]
    print(json.dumps({"logits": logits.tolist(), "missing": missing, "unexpected": list(report.unexpected_keys)}))


main(*sys.argv[1:])
