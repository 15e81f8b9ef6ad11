# SPDX-License-Identifier: Apache-2.0
"""The best matrix multiplication this machine does with the task's precision, threads and ranks: GFLOP/s of all ranks
together, the best of several shapes and libraries. Prints one JSON line.

torch's own call goes to MKL in f32, which does half of what oneDNN does on some processors, so oneDNN is asked too, by
tensors that are its own. Where the processor has no instructions for bf16, torch's products of it do a tenth of f32's; the best
way to multiply bf16 there is as f32, so that is the peak."""
import argparse
import json
import os
import time
from collections.abc import Callable

import torch
import torch.distributed as dist

SHAPES = [(2048, 2048, 2048), (1024, 576, 1536), (1024, 1536, 576), (2048, 576, 1536), (4096, 4096, 4096)]
SLICE, NUM_SLICES = 0.2, 3  # seconds; of each way of each shape, of which the best counts


Product = Callable[[], torch.Tensor]


def ways(m: int, k: int, n: int, dtype: torch.dtype) -> list[Product]:
    """The libraries' ways to the same product, [m, k] by [k, n]."""
    a, b = torch.randn(m, k).to(dtype), torch.randn(n, k).to(dtype)
    found: list[Product] = [lambda: torch.nn.functional.linear(a, b)]
    if torch.backends.mkldnn.is_available():
        of_onednn = a.to_mkldnn(), b.to_mkldnn()
        found.append(lambda: torch.nn.functional.linear(*of_onednn))
    return found


def rate_of_slice(product: Product) -> float:
    """Products a second of all ranks, at the same time: cores may be halves of one, and a rank alone would get more than
    its share."""
    if dist.is_initialized():
        dist.barrier()
    start, done = time.perf_counter(), 0
    while done == 0 or time.perf_counter() - start < SLICE:
        product()
        done += 1
    found = torch.tensor(done / (time.perf_counter() - start))
    if dist.is_initialized():
        dist.all_reduce(found)
    return found.item()


def best_gflops(m: int, k: int, n: int, dtype: torch.dtype) -> float:
    best = 0.0
    for product in ways(m, k, n, dtype):
        product()  # makes the kernel
        best = max(best, *(rate_of_slice(product) for _ in range(NUM_SLICES)))
    return 2 * m * k * n * best / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bf16", action="store_true")
    a = parser.parse_args()
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    is_bf16 = a.bf16 and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    dtype = torch.bfloat16 if is_bf16 else torch.float32
    with torch.no_grad():
        found = [round(best_gflops(*shape, dtype), 1) for shape in SHAPES]
    if int(os.environ.get("RANK", "0")) == 0:
        print("PROBE " + json.dumps(dict(zip((" x ".join(map(str, shape)) for shape in SHAPES), found))), flush=True)
    if dist.is_initialized():
        dist.destroy_process_group()


main()
