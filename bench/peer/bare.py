# SPDX-License-Identifier: Apache-2.0
"""A bare PyTorch loop, DistributedDataParallel on several ranks. Three variants:

bare         padded batches, logits of every token.
bare-packed  the rows of a micro-batch one behind the other, and logits of trained tokens only.
fsdp2        as bare, with fully_shard on every layer.

In bf16 what is frozen is kept in bf16, what trains in f32, and autocast computes; FSDP2 casts by its own policy.
"""
import contextlib

import batch
import task as shared
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

IGNORED = -100


class PaddedLoss(nn.Module):
    """Summed loss of the trained tokens."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, rows: list[dict]) -> torch.Tensor:
        padded = batch.pad(rows)
        logits = self.model(input_ids=padded["input_ids"], attention_mask=padded["attention_mask"], use_cache=False).logits
        return functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), padded["labels"][:, 1:].flatten(),
                                        ignore_index=IGNORED, reduction="sum")


class PackedLoss(PaddedLoss):
    def forward(self, rows: list[dict]) -> torch.Tensor:
        causal = self.model.get_base_model() if hasattr(self.model, "get_base_model") else self.model
        ids = torch.tensor([[token for row in rows for token in row["input_ids"]]])
        positions = torch.tensor([[place for row in rows for place in range(len(row["input_ids"]))]])
        targets = torch.tensor([label for row in rows for label in row["labels"][1:] + [IGNORED]])
        is_trained = targets != IGNORED
        # That places start again tells transformers where rows begin: no row sees another.
        hidden = causal.model(input_ids=ids, position_ids=positions, use_cache=False).last_hidden_state[0]
        return functional.cross_entropy(causal.lm_head(hidden[is_trained]).float(), targets[is_trained], reduction="sum")


def sharded(task: shared.Task, model: nn.Module) -> nn.Module:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    mesh = init_device_mesh("cpu", (task.ranks,))
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if task.bf16 else MixedPrecisionPolicy()
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    return fully_shard(model, mesh=mesh, mp_policy=policy)


def build(task: shared.Task) -> nn.Module:
    model = batch.causal_lm(task, torch.bfloat16 if task.bf16 and task.adapter else torch.float32)
    if task.variant == "fsdp2":
        return PaddedLoss(sharded(task, model))
    loss = (PackedLoss if task.variant == "bare-packed" else PaddedLoss)(model)
    return nn.parallel.DistributedDataParallel(loss) if task.ranks > 1 else loss


def update(task: shared.Task, rows: list[dict], rank: int, loss_of: nn.Module, optimizer: torch.optim.Optimizer) -> float:
    """One update; returns the mean loss of its trained tokens, which every rank counts beforehand."""
    total, trained = torch.zeros(()), shared.num_trained(rows)
    uses_autocast = task.bf16 and task.variant != "fsdp2"
    for i in range(task.accumulation):
        first = (i * task.ranks + rank) * task.micro
        with torch.autocast("cpu", torch.bfloat16) if uses_autocast else contextlib.nullcontext():
            loss = loss_of(rows[first:first + task.micro]) / trained
        (loss * task.ranks).backward()  # both wrappers divide the sum by the ranks
        total += loss.detach()
    if task.ranks > 1:
        dist.all_reduce(total)
    nn.utils.clip_grad_norm_([p for p in loss_of.parameters() if p.requires_grad], batch.MAX_GRAD_NORM)
    optimizer.step()
    optimizer.zero_grad()
    return total.item()


def main() -> None:
    task, record, rank = shared.read(), shared.Record(), 0
    if task.ranks > 1:
        dist.init_process_group("gloo")
        rank = dist.get_rank()
    loss_of = build(task)
    loss_of.train()
    trained = [p for p in loss_of.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=task.learning_rate, fused=True, **batch.ADAMW)
    for i in range(task.updates):
        rows = task.rows_of(i)
        record.losses.append(update(task, rows, rank, loss_of, optimizer))
        record.end_update(shared.num_tokens(rows))
    record.write(task.out)
    if task.ranks > 1:
        dist.destroy_process_group()


main()
