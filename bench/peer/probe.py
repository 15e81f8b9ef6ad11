# SPDX-License-Identifier: Apache-2.0
"""The best matrix multiplication this machine does with the task's precision, threads and ranks: GFLOP/s of all ranks
together, the best of several shapes. Prints one JSON line."""
import argparse
import json
import os
import time

import torch
import torch.distributed as dist

SHAPES = [(2048, 2048, 2048), (1024, 576, 1536), (1024, 1536, 576), (2048, 576, 1536), (4096, 4096, 4096)]
SLICE, NUM_SLICES = 0.25, 4  # seconds; of each shape, of which the best counts


def gflops_of_slice(a: torch.Tensor, b: torch.Tensor) -> float:
    """Of all ranks, at the same time: cores may be halves of one, and a rank alone would get more than its share."""
    if dist.is_initialized():
        dist.barrier()
    start, done = time.perf_counter(), 0
    while done == 0 or time.perf_counter() - start < SLICE:
        torch.nn.functional.linear(a, b)
        done += 1
    found = torch.tensor(2 * a.numel() * b.shape[0] * done / (time.perf_counter() - start) / 1e9)
    if dist.is_initialized():
        dist.all_reduce(found)
    return found.item()


def best_gflops(m: int, k: int, n: int, dtype: torch.dtype) -> float:
    a, b = torch.randn(m, k).to(dtype), torch.randn(n, k).to(dtype)
    torch.nn.functional.linear(a, b)  # makes the kernel
    return max(gflops_of_slice(a, b) for _ in range(NUM_SLICES))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bf16", action="store_true")
    a = parser.parse_args()
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    dtype = torch.bfloat16 if a.bf16 else torch.float32
    found = [round(best_gflops(*shape, dtype), 1) for shape in SHAPES]
    if int(os.environ.get("RANK", "0")) == 0:
        print("PROBE " + json.dumps(dict(zip((" x ".join(map(str, shape)) for shape in SHAPES), found))), flush=True)
    if dist.is_initialized():
        dist.destroy_process_group()


main()
