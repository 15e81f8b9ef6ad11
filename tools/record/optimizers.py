# SPDX-License-Identifier: Apache-2.0
"""Records weights after each step of torch.optim's AdamW and SGD: tests/fixtures/golden/optimizers.json.

Gradients are drawn from a seed and stored, so that the C++ side sees the same numbers.
Run with a Python that has torch: python tools/record/optimizers.py
"""
import json
import pathlib

import torch

SEED = 3
STEPS = 6
RATES = [0.01, 0.02, 0.02, 0.005, 0.0, 0.01]
# "weight" is decayed, "bias" is not.
SHAPES = {"weight": [3, 5], "bias": [5]}
CASES = [
    {"optim": "adamw", "weight_decay": 0.0},
    {"optim": "adamw", "weight_decay": 0.1},
    {"optim": "adamw", "weight_decay": 0.3, "beta1": 0.8, "beta2": 0.95, "epsilon": 1e-4},
    {"optim": "sgd", "momentum": 0.0},
    {"optim": "sgd", "momentum": 0.9},
    {"optim": "sgd", "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
]


def make(case, weight, bias):
    decay = case.get("weight_decay", 0.0)
    groups = [{"params": [weight], "weight_decay": decay}, {"params": [bias], "weight_decay": 0.0}]
    if case["optim"] == "adamw":
        return torch.optim.AdamW(groups, betas=(case.get("beta1", 0.9), case.get("beta2", 0.999)),
                                 eps=case.get("epsilon", 1e-8))
    return torch.optim.SGD(groups, lr=0.1, momentum=case["momentum"], nesterov=case.get("nesterov", False))


def record(case, start, gradients):
    params = {name: torch.nn.Parameter(value.clone()) for name, value in start.items()}
    optimizer = make(case, params["weight"], params["bias"])
    weights = []
    for lr, step in zip(RATES, gradients):
        for group in optimizer.param_groups:
            group["lr"] = lr
        for name, param in params.items():
            param.grad = step[name].clone()
        optimizer.step()
        weights.append({name: param.detach().flatten().tolist() for name, param in params.items()})
    return {**case, "weights": weights}


def main():
    torch.manual_seed(SEED)
    start = {name: torch.randn(shape) for name, shape in SHAPES.items()}
    gradients = [{name: torch.randn(shape) * 0.3 for name, shape in SHAPES.items()} for _ in range(STEPS)]
    norm = torch.nn.utils.get_total_norm(gradients[0].values())
    result = {
        "versions": {"torch": torch.__version__},
        "seed": SEED,
        "shapes": SHAPES,
        "rates": RATES,
        "start": {name: value.flatten().tolist() for name, value in start.items()},
        "gradients": [{name: value.flatten().tolist() for name, value in step.items()} for step in gradients],
        "norm_of_first_gradients": norm.item(),
        "cases": [record(case, start, gradients) for case in CASES],
    }
    path = pathlib.Path(__file__).parents[2] / "tests/fixtures/golden/optimizers.json"
    path.write_text(json.dumps(result, separators=(",", ":")) + "\n")
    print(path, path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
