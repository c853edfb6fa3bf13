"""Training steps by what PyTorch builds on process groups, on ours and on gloo.

What takes PyTorch longer to import than a scenario takes is imported where it is used.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import (
    PowerSGDState,
    powerSGD_hook,
)
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.algorithms.model_averaging.utils import average_parameters
from torch.nn.parallel import DistributedDataParallel

Found = dict[str, Any]
STEPS = 5


class Branches(torch.nn.Module):
    """A small network with a buffer and a layer that only some steps use."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first = torch.nn.Linear(20, 300)
        self.normalisation = torch.nn.BatchNorm1d(300)
        self.rare = torch.nn.Linear(300, 300)
        self.last = torch.nn.Linear(300, 4)

    def forward(self, images: torch.Tensor, rare: bool) -> torch.Tensor:
        hidden = torch.relu(self.normalisation(self.first(images)))
        return self.last(torch.relu(self.rare(hidden)) if rare else hidden)


def batch(rank: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(100 * rank + step)
    images = torch.randn(16, 20, generator=generator)
    return images, torch.randint(0, 4, (16,), generator=generator)


def train(model: Any, optimizer: Any, rank: int, rare: Any, steps: int = STEPS) -> list[float]:
    losses = []
    for step in range(steps):
        images, labels = batch(rank, step)
        loss = torch.nn.functional.cross_entropy(model(images, rare(step)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def parallel(rank: int, ranks: int) -> Found:
    """Losses of DistributedDataParallel in its kinds, and of what stands beside it."""
    found = in_parallel(rank, KINDS)
    for backend in ("ours", "gloo"):
        group = dist.new_group(backend=None if backend == "ours" else backend)
        found[f"{backend} join"] = joined(group, rank)
        found[f"{backend} join by those who train"] = joined(
            group, rank, {"divide_by_initial_world_size": False}
        )
        found[f"{backend} join and unused"] = joined(group, rank, {}, find_unused_parameters=True)
        found[f"{backend} powers"] = by_powers(group, rank)
        found[f"{backend} built in"] = by_built_in_hooks(group, rank)
        found[f"{backend} zero"] = zero(group, rank)
    averaged(rank)
    # Of gloo's two threads each would wait for the other here.
    found["many powers"] = by_powers(dist.group.WORLD, rank, bucket_cap_mb=0.1)
    found["full"] = from_the_first(rank)
    return found


def in_parallel(rank: int, kinds: dict[str, dict[str, Any]]) -> Found:
    """Losses of DistributedDataParallel on both backends."""
    found: Found = {}
    for backend in ("ours", "gloo"):
        group = dist.new_group(backend=None if backend == "ours" else backend)
        for name, options in kinds.items():
            model = DistributedDataParallel(Branches(), process_group=group, **options)
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            rare = (lambda step: step % 2 == rank) if "find" in name else (lambda step: True)
            found[f"{backend} {name}"] = train(model, optimizer, rank, rare)
    return found


KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "bucket views": {"gradient_as_bucket_view": True, "bucket_cap_mb": 0.1},
    "find unused": {"find_unused_parameters": True},
    "static graph": {"static_graph": True},
}


def joined(
    group: Any, rank: int, join: dict[str, Any] | None = None, **options: Any
) -> list[float]:
    """Ranks with different numbers of steps."""
    model = DistributedDataParallel(torch.nn.Linear(20, 4), process_group=group, **options)
    for parameter in model.parameters():
        torch.nn.init.constant_(parameter, 0.1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses = []
    with model.join(**(join or {})):
        for step in range(STEPS + rank):
            images, labels = batch(rank, step)
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


def by_powers(group: Any, rank: int, **options: Any) -> list[float]:
    """Gradients that are compressed: what a future calls waits for further operations."""
    model = DistributedDataParallel(Branches(), process_group=group, **options)
    state = PowerSGDState(group, matrix_approximation_rank=2, start_powerSGD_iter=3)
    model.register_comm_hook(state, powerSGD_hook)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses = train(model, optimizer, rank, lambda step: True)
    sums = [parameter.grad.sum().item() for parameter in model.parameters()]
    return [*sums, *(losses if not options else [])]


def by_built_in_hooks(group: Any, rank: int) -> list[Any]:
    """Losses, and what the logs of torch call the hook."""
    found: list[Any] = []
    for kind in (dist.BuiltinCommHookType.ALLREDUCE, dist.BuiltinCommHookType.FP16_COMPRESS):
        model = DistributedDataParallel(Branches(), process_group=group)
        model._register_builtin_comm_hook(kind)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        found += train(model, optimizer, rank, lambda step: True)
        found.append(model._get_ddp_logging_data()["comm_hook"])
    return found


def from_the_first(rank: int) -> bool:
    """Whether a model gets what the first rank alone has."""
    from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict

    model, state = Branches(), {}
    for parameter in model.parameters():
        torch.nn.init.constant_(parameter, 2.0 if rank == 0 else 3.0)
    if rank == 0:
        state = {name: value.clone() for name, value in model.state_dict().items()}
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(model, state, options=options)
    return all(bool((parameter == 2.0).all()) for parameter in model.parameters())


def zero(group: Any, rank: int) -> list[float]:
    """An optimizer whose state is divided among the ranks."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = DistributedDataParallel(Branches(), process_group=group)
    optimizer = ZeroRedundancyOptimizer(
        model.parameters(), torch.optim.Adam, process_group=group, lr=0.01
    )
    return train(model, optimizer, rank, lambda step: True)


def averaged(rank: int) -> None:
    """Local steps and now and then a mean of parameters: what PostLocalSGD does."""
    model = Branches()
    averager = PeriodicModelAverager(period=2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(4):
        train(model, optimizer, rank, lambda step: True, 1 + rank)
        averager.average_parameters(model.parameters())
    average_parameters(model.parameters(), dist.group.WORLD)
    for parameter in model.parameters():
        mean = parameter.detach().clone()
        dist.broadcast(mean, 0)
        assert torch.equal(mean, parameter)


def sharded(rank: int, ranks: int, folder: Path) -> Found:
    """FSDP2 against the same steps in one process on all batches, and a checkpoint of it."""
    from torch.distributed import checkpoint
    from torch.distributed.fsdp import fully_shard

    model, alone = Branches(), Branches()
    model.normalisation = alone.normalisation = torch.nn.Identity()
    for layer in (model.first, model.rare, model.last):
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    single = torch.optim.SGD(alone.parameters(), 0.1)
    found: Found = {"losses": train(model, optimizer, rank, lambda step: True), "alone": []}
    for step in range(STEPS):
        single.zero_grad()
        for other in range(ranks):
            images, labels = batch(other, step)
            loss = torch.nn.functional.cross_entropy(alone(images, True), labels)
            (loss / ranks).backward()
            if other == rank:
                found["alone"].append(loss.item())
        single.step()
    found["kept"] = kept(model, folder / "checkpoint", checkpoint.save)
    found["kept meanwhile"] = kept(
        model,
        folder / "meanwhile",
        lambda state, checkpoint_id: checkpoint.async_save(
            state, checkpoint_id=checkpoint_id
        ).result(),
    )
    return found


def kept(model: Any, folder: Path, save: Any) -> bool:
    """Whether a distributed checkpoint gives back what was saved."""
    from torch.distributed import checkpoint

    state = {"model": model.state_dict()}
    before = {name: value.full_tensor() for name, value in state["model"].items()}
    save(state, checkpoint_id=folder)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    checkpoint.load(state, checkpoint_id=folder)
    model.load_state_dict(state["model"])
    after = {name: value.full_tensor() for name, value in model.state_dict().items()}
    return all(torch.equal(before[name], after[name]) for name in before)
