# SPDX-License-Identifier: Apache-2.0
"""Writes the adapter that every program starts from, so that their losses can be compared: adapter.py MODEL FOLDER."""
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

torch.manual_seed(42)
base = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32)
config = LoraConfig(r=8, lora_alpha=16, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM")
get_peft_model(base, config).save_pretrained(sys.argv[2])
