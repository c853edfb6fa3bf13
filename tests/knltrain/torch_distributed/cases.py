"""Collective operations by name: what they give on a group, for the backends to be compared.

Each case is a function of the group that returns the tensors it has filled. ``gloo`` lacks some of
the operations; those are spelled out there in others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed import ReduceOp

Case = Callable[[Any], list[torch.Tensor]]

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.uint8, torch.int8, torch.int32, torch.int64)
SIZES = (1, 17, 1000, 40_000, 400_003)
"""From one element to several pieces of every dtype."""

# Their names up to torch 2.12.
all_gather_single = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
reduce_scatter_single = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


def values(rank: int, size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1000 * rank + size)
    if dtype is torch.bool:
        return torch.rand(size, generator=generator) < 0.5
    if dtype.is_floating_point:
        return torch.rand(size, generator=generator, dtype=torch.float64).sub(0.5).to(dtype)
    if dtype.is_complex:
        return torch.view_as_complex(values(rank, 2 * size, torch.float32).reshape(-1, 2).clone())
    return torch.randint(0, 5, (size,), generator=generator).to(dtype)


def is_gloo(group: Any) -> bool:
    return dist.get_backend(group) == "gloo"


def all_reduce(dtype: torch.dtype, op: Any, size: int) -> Case:
    def run(group: Any) -> list[torch.Tensor]:
        tensor = values(group.rank(), size, dtype)
        if is_gloo(group) and op == ReduceOp.AVG:
            dist.all_reduce(tensor, group=group)
            return [tensor / group.size()]
        if is_gloo(group) and dtype is torch.bool:
            tensor = tensor.to(torch.uint8)
            dist.all_reduce(tensor, ReduceOp.MAX, group=group)
            return [tensor.bool()]
        dist.all_reduce(tensor, op, group=group)
        return [tensor]

    return run


def broadcast(size: int) -> Case:
    def run(group: Any) -> list[torch.Tensor]:
        found = []
        for root in range(group.size()):
            tensor = values(group.rank(), size)
            dist.broadcast(tensor, group=group, group_src=root)
            found.append(tensor)
        return found

    return run


def all_gather(size: int) -> Case:
    def run(group: Any) -> list[torch.Tensor]:
        own = values(group.rank(), size)
        outputs = [torch.zeros(size) for _ in range(group.size())]
        dist.all_gather(outputs, own, group=group)
        whole = torch.zeros(size * group.size())
        all_gather_single(whole, own, group=group)
        in_place = torch.zeros(size * group.size())
        part = in_place[size * group.rank() :][:size]
        part.copy_(own)
        all_gather_single(in_place, part, group=group)
        return [*outputs, whole, in_place]

    return run


def reduce(size: int) -> Case:
    def run(group: Any) -> list[torch.Tensor]:
        tensor = values(group.rank(), size)
        dist.reduce(tensor, group_dst=group.size() - 1, group=group)
        return [tensor] if group.rank() == group.size() - 1 else []

    return run


def reduce_scatter(size: int, op: Any) -> Case:
    def run(group: Any) -> list[torch.Tensor]:
        ranks = group.size()
        given = values(group.rank(), size * ranks)
        if is_gloo(group):
            dist.all_reduce(given, group=group)
            own = given.chunk(ranks)[group.rank()] / (ranks if op == ReduceOp.AVG else 1)
            return [own, own]
        single, listed = torch.zeros(size), torch.zeros(size)
        reduce_scatter_single(single, given, op, group=group)
        dist.reduce_scatter(listed, list(given.clone().chunk(ranks)), op, group=group)
        return [single, listed]

    return run


def gather_and_scatter(size: int) -> Case:
    def run(group: Any) -> list[torch.Tensor]:
        rank, ranks, root = group.rank(), group.size(), group.size() - 1
        found = [torch.zeros(size) for _ in range(ranks)] if rank == root else None
        dist.gather(values(rank, size), found, group=group, group_dst=root)
        own = torch.zeros(size)
        dist.scatter(own, found[::-1] if found else None, group=group, group_src=root)
        return [own, *(found or [])]

    return run


def means_and_bits(group: Any) -> list[torch.Tensor]:
    """Reduce and reduce-scatter as no sums: what is given by ranks other than the root is kept."""
    rank, ranks, found = group.rank(), group.size(), list[torch.Tensor]()
    for op, dtype in ((ReduceOp.AVG, torch.float32), (ReduceOp.BOR, torch.int64)):
        given, part = values(rank, 60 * ranks, dtype), torch.zeros(60, dtype=dtype)
        whole = given.clone()
        if is_gloo(group):
            is_mean = op == ReduceOp.AVG
            dist.all_reduce(whole, ReduceOp.SUM if is_mean else op, group=group)
            whole = whole / ranks if is_mean else whole
            part = whole.chunk(ranks)[rank]
        else:
            reduce_scatter_single(part, given, op, group=group)
            dist.reduce(whole, op=op, group_dst=ranks - 1, group=group)
        found += [whole if rank == ranks - 1 else given, part]
        assert is_gloo(group) or rank == ranks - 1 or torch.equal(whole, given)
    return found


def all_to_all(size: int) -> Case:
    def run(group: Any) -> list[torch.Tensor]:
        rank, ranks = group.rank(), group.size()
        given = values(rank, size * ranks)
        even = torch.zeros_like(given)
        dist.all_to_all_single(even, given, group=group)
        # Rank q sends q + r + 1 rows of 3 to rank r.
        inputs = [rank + other + 1 for other in range(ranks)]
        rows = values(rank, 3 * sum(inputs)).reshape(-1, 3)
        uneven = torch.zeros(sum(inputs), 3)
        dist.all_to_all_single(uneven, rows, inputs, inputs, group=group)
        if is_gloo(group):
            return [even, uneven, *even.chunk(ranks)]
        listed = [torch.zeros(size) for _ in range(ranks)]
        dist.all_to_all(listed, list(given.chunk(ranks)), group=group)
        return [even, uneven, *listed]

    return run


def objects(group: Any) -> list[torch.Tensor]:
    rank, ranks = group.rank(), group.size()
    found: list[Any] = [None] * ranks
    dist.all_gather_object(found, {"rank": rank, "text": "x" * (1000 * rank + 1)}, group=group)
    told = [f"from {rank}", rank]
    dist.broadcast_object_list(told, group=group, group_src=1)
    got: list[Any] = [None]
    given = [f"to {other}" for other in range(ranks)] if rank == 0 else None
    dist.scatter_object_list(got, given, group=group, group_src=0)
    assert [it["rank"] for it in found] == list(range(ranks))
    assert [len(it["text"]) for it in found] == [1000 * other + 1 for other in range(ranks)]
    assert told == ["from 1", 1]
    assert got == [f"to {rank}"]
    return []


def coalesced(group: Any) -> list[torch.Tensor]:
    tensors = [values(group.rank(), size) for size in (5, 1000, 70_000)]
    if is_gloo(group):
        for tensor in tensors:
            dist.all_reduce(tensor, group=group)
        return tensors
    with dist._coalescing_manager(group):
        for tensor in tensors[:2]:
            dist.all_reduce(tensor, group=group)
    dist.all_reduce_coalesced(tensors[2:], group=group)
    return tensors


def coalesced_gathers(group: Any) -> list[torch.Tensor]:
    rank, ranks = group.rank(), group.size()
    given = [values(rank, size) for size in (3, 700)]
    found = [torch.zeros(ranks * tensor.numel()) for tensor in given]
    if is_gloo(group):
        for whole, own in zip(found, given, strict=True):
            all_gather_single(whole, own, group=group)
    else:
        with dist._coalescing_manager(group, async_ops=True) as work:
            for whole, own in zip(found, given, strict=True):
                all_gather_single(whole, own, group=group)
        work.wait()
    return found


def functionals(group: Any) -> list[torch.Tensor]:
    own = values(group.rank(), 12)
    found = [
        functional.all_reduce(own, "sum", group),
        functional.all_gather_tensor(own, 0, group),
        functional.broadcast(own, 0, group),
        functional.all_to_all_single(own, None, None, group),
    ]
    if is_gloo(group):
        return [functional.wait_tensor(tensor) for tensor in found]
    scattered = functional.reduce_scatter_tensor(own, "sum", 0, group)
    found = [functional.wait_tensor(tensor) for tensor in found]
    part = found[0].chunk(group.size())[group.rank()]
    torch.testing.assert_close(functional.wait_tensor(scattered), part, rtol=1e-6, atol=1e-6)
    return found


def neighbours(size: int) -> Case:
    """Every rank sends to the next and receives from the one before, posted sends first."""

    def run(group: Any) -> list[torch.Tensor]:
        rank, ranks = group.rank(), group.size()
        found = torch.zeros(size)
        operations = [
            dist.P2POp(dist.isend, values(rank, size), group=group, group_peer=(rank + 1) % ranks),
            dist.P2POp(dist.irecv, found, group=group, group_peer=(rank - 1) % ranks),
        ]
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        return [found]

    return run


def tags(group: Any) -> list[torch.Tensor]:
    """Messages that are received in another order than they were sent, and of whoever sends."""
    rank, last = group.rank(), group.size() - 1
    sizes = {3: 100_000, 1: 5, 2: 0}
    if rank == last:
        found = {tag: torch.zeros(size) for tag, size in sizes.items()}
        for tag in (1, 2, 3):
            dist.recv(found[tag], group=group, group_src=0, tag=tag)
        anyone = torch.zeros(4)
        assert dist.recv(anyone, group=group, tag=9) == dist.get_global_rank(group, 0)
        return [*found.values(), anyone]
    if rank == 0:
        sent = [
            dist.isend(values(0, size), group=group, group_dst=last, tag=tag)
            for tag, size in sizes.items()
        ]
        dist.send(values(0, 4), group=group, group_dst=last, tag=9)
        for work in sent:
            work.wait()
    return []


def strided(group: Any) -> list[torch.Tensor]:
    """Tensors of one shape that lie in memory in another order at each rank."""
    rank, root = group.rank(), group.size() - 1
    orders = torch.channels_last, torch.contiguous_format
    found = []
    for operation in (dist.all_reduce, dist.broadcast, dist.reduce):
        tensor = values(rank, 2 * 3 * 5 * 7).reshape(2, 3, 5, 7)
        tensor = tensor.contiguous(memory_format=orders[rank % 2])
        kept = tensor.clone(memory_format=torch.contiguous_format) if is_gloo(group) else tensor
        if operation is dist.all_reduce:
            operation(kept, group=group)
        else:
            operation(kept, group=group, **{ROOTS[operation]: root})
        found += [kept.contiguous()] if operation is not dist.reduce or rank == root else []
    every = values(rank, 60).reshape(6, 10)
    part = every[::2, 1::3]  # which is not even dense
    whole = part.clone() if is_gloo(group) else part
    dist.all_reduce(whole, group=group)
    return [*found, whole.clone()]


ROOTS: dict[Any, str] = {dist.broadcast: "group_src", dist.reduce: "group_dst"}


def sparse(group: Any) -> list[torch.Tensor]:
    """Sparse tensors with entries that some ranks have, or none, or twice; and half dense ones."""
    rank, found = group.rank(), list[torch.Tensor]()
    for entries in (0, 3, 5 * rank):
        places = torch.arange(2 * entries).reshape(2, entries) % (4 + rank)
        for values_ in (values(rank, entries), values(rank, 6 * entries).reshape(entries, 6)):
            shape = (7, 7, *values_.shape[1:])
            tensor = torch.sparse_coo_tensor(places, values_, shape)
            dist.all_reduce(tensor, group=group)
            found.append(tensor.to_dense())
    return found


def unequal(group: Any) -> list[torch.Tensor]:
    """Reduce-scatter to ranks of which each gets more than the one before, the first nothing."""
    rank, ranks = group.rank(), group.size()
    found = []
    for op in (ReduceOp.SUM, ReduceOp.MAX):
        given = [values(rank, 1000 * other) for other in range(ranks)]
        if is_gloo(group):
            whole = torch.cat(given)
            dist.all_reduce(whole, op, group=group)
            found.append(whole.split([len(part) for part in given])[rank])
        else:
            output = torch.zeros(1000 * rank)
            dist.reduce_scatter(output, given, op, group=group)
            found.append(output)
    return found


def in_order(group: Any) -> list[torch.Tensor]:
    """Operations under way at the same time, and one that is waited for behind them."""
    found = [values(group.rank(), size) for size in (300_000, 3, 5000, 70_000)]
    works = [dist.all_reduce(tensor, group=group, async_op=True) for tensor in found]
    for work in works if is_gloo(group) else []:  # it does two at the same time
        work.wait()
    # What the first of them gives is input to this one.
    works.append(dist.broadcast(found[0], group=group, group_src=1, async_op=True))
    dist.all_reduce(found[1], group=group)
    for work in reversed(works):
        work.wait()
        assert work.is_completed()
    return found


CASES: dict[str, Case] = {
    **{
        f"all_reduce {dtype} {size}": all_reduce(dtype, ReduceOp.SUM, size)
        for dtype in (*FLOATS, *INTEGERS, torch.bool, torch.complex64)
        for size in SIZES
    },
    **{
        f"all_reduce {dtype} {op}": all_reduce(dtype, op, 1000)
        for dtype in FLOATS
        for op in (ReduceOp.AVG, ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.MAX)
    },
    **{
        f"all_reduce {dtype} {op}": all_reduce(dtype, op, 1000)
        for dtype in INTEGERS
        for op in (ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.MAX, ReduceOp.BOR, ReduceOp.BAND)
    },
    **{
        f"{make.__name__} {size}": make(size)
        for make in (broadcast, all_gather, reduce, gather_and_scatter, all_to_all, neighbours)
        for size in (0, 1, 1000, 400_003)
        if size or make is not all_to_all
    },
    **{
        f"reduce_scatter {op} {size}": reduce_scatter(size, op)
        for op in (ReduceOp.SUM, ReduceOp.AVG)
        for size in (1, 1000, 200_003)
    },
    "reduce means and bits": means_and_bits,
    "all_reduce of nothing": all_reduce(torch.float32, ReduceOp.SUM, 0),
    "objects": objects,
    "coalesced": coalesced,
    "coalesced gathers": coalesced_gathers,
    "functional collectives": functionals,
    "tags": tags,
    "in order": in_order,
    "strided": strided,
    "sparse": sparse,
    "unequal": unequal,
}

EXACT = {"broadcast", "all_gather", "gather_and_scatter", "all_to_all", "neighbours", "tags"}


_FEW = (torch.float32, torch.bfloat16, torch.int64)
RARE = tuple(
    name
    for name in CASES
    if "torch." in name and not name.split()[1].endswith(tuple(map(str, _FEW)))
)
"""Cases that need kernels of their own, which take a second each to compile."""


def difference(name: str, found: list[torch.Tensor], expected: list[torch.Tensor]) -> str:
    """Say what differs; where sums are rounded in another order they may, a little."""
    if len(found) != len(expected):
        return f"{len(found)} tensors instead of {len(expected)}"
    rounded = name.split()[0] not in EXACT
    for got, wanted in zip(found, expected, strict=True):
        if got.dtype in (torch.float16, torch.bfloat16) and rounded:
            tolerance = 3 * torch.finfo(got.dtype).eps
        else:
            tolerance = 1e-6 if rounded and got.dtype != torch.bool else 0
        try:
            torch.testing.assert_close(got, wanted, rtol=tolerance, atol=tolerance)
        except AssertionError as error:
            return str(error)
    return ""
