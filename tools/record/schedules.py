# SPDX-License-Identifier: Apache-2.0
"""Records the learning rates of transformers' schedules: tests/fixtures/golden/schedules.json.

Run with a Python that has torch and transformers: python tools/record/schedules.py
"""
import json
import pathlib

import torch
import transformers
from transformers.optimization import get_scheduler

LR = 0.003
TOTAL = 23

CASES = [
    # type, warmup_steps, lr_scheduler_kwargs
    ("constant", 0, {}),
    ("constant_with_warmup", 5, {}),
    ("linear", 0, {}),
    ("linear", 4, {}),
    ("cosine", 0, {}),
    ("cosine", 4, {}),
    ("cosine", 3, {"num_cycles": 1.5}),
    ("cosine_with_min_lr", 4, {"min_lr": 0.0005}),
    ("cosine_with_min_lr", 0, {"min_lr_rate": 0.1}),
    ("cosine_with_restarts", 4, {}),
    ("cosine_with_restarts", 2, {"num_cycles": 3}),
    ("polynomial", 4, {}),
    ("polynomial", 3, {"lr_end": 1e-4, "power": 2.0}),
    ("inverse_sqrt", 0, {}),
    ("inverse_sqrt", 4, {}),
    ("inverse_sqrt", 4, {"timescale": 16}),
    ("warmup_stable_decay", 4, {"num_decay_steps": 8}),
    ("warmup_stable_decay", 4, {"num_decay_steps": 8, "warmup_type": "cosine", "decay_type": "linear"}),
    ("warmup_stable_decay", 4, {"num_decay_steps": 8, "num_stable_steps": 5, "warmup_type": "1-sqrt",
                                "decay_type": "1-sqrt", "min_lr_ratio": 0.1}),
]

PLATEAU = [
    # kwargs, metrics told in turn
    ({"patience": 1}, [3, 2, 2.1, 2.2, 2.3, 1.9, 1.9, 1.9, 1.9, 1.9, 1.0]),
    ({"patience": 0, "factor": 0.5, "cooldown": 2}, [1, 1, 1, 1, 1, 1, 0.5, 0.6]),
    ({"patience": 0, "mode": "max", "threshold": 0.1, "threshold_mode": "abs", "min_lr": 0.001},
     [0.5, 0.55, 0.7, 0.7, 0.7, 0.9]),
]


def optimizer():
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=LR)


def rates(name, warmup, kwargs):
    opt = optimizer()
    scheduler = get_scheduler(name, opt, num_warmup_steps=warmup, num_training_steps=TOTAL,
                              scheduler_specific_kwargs=dict(kwargs))
    out = []
    for _ in range(TOTAL + 3):  # a few beyond the end
        out.append(opt.param_groups[0]["lr"])
        opt.step()
        scheduler.step()
    return out


def plateau(kwargs, metrics):
    opt = optimizer()
    scheduler = get_scheduler("reduce_lr_on_plateau", opt, scheduler_specific_kwargs=dict(kwargs))
    out = []
    for metric in metrics:
        scheduler.step(metric)
        out.append(opt.param_groups[0]["lr"])
    return out


def main():
    result = {
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "learning_rate": LR,
        "total_steps": TOTAL,
        "curves": [{"type": n, "warmup_steps": w, "kwargs": k, "rates": rates(n, w, k)} for n, w, k in CASES],
        "plateau": [{"kwargs": k, "metrics": m, "rates": plateau(k, m)} for k, m in PLATEAU],
    }
    path = pathlib.Path(__file__).parents[2] / "tests/fixtures/golden/schedules.json"
    path.write_text(json.dumps(result, separators=(",", ":")) + "\n")
    print(path, path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
