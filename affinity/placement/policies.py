"""What a memory policy does with a plan whose memory does not fit where it is to be.

`strict` refuses a plan, where the kernel would kill the process later. Otherwise memory spills:
the memory that is used first when HBM is full, if that is not the DRAM of the same cores.

The kernel goes on with the node nearest to the HBM. A node without cpus counts as nearer than one
with cpus at the same distance: on a Xeon Max in SNC-4, the HBM of the other clusters comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from affinity import terms
from affinity.errors import PlacementError
from affinity.numbers import format_bytes
from affinity.placement.memories import Memories
from affinity.placement.memory import Aim, Part
from affinity.placement.plan import MemoryPlan, Need, Placement
from affinity.placement.wording import by_whom, counted, named, numbered

if TYPE_CHECKING:
    from affinity.process.allowed import AllowedResources


def spill_notes(
    memories: Memories, seats: Sequence[Placement], aims: Sequence[Aim], plans: Sequence[MemoryPlan]
) -> list[str]:
    """A note on the workers that spill into the HBM of others before their own DRAM, if any do.

    Workers whose needs are known count only if they exceed their own HBM.
    """
    ways = {
        seat.rank: way
        for seat, one, plan in zip(seats, aims, plans, strict=True)
        if (way := _way(memories, seat.numa_nodes, one, _taken_by_others(seat.rank, aims)))
        if plan.need_bytes is None or _exceeds(one, plan, way[0])
    }
    if not ways:
        return []
    rank, (own, others, dram) = next(iter(ways.items()))
    order = ", then ".join(named(memories.topology, nodes) for nodes in (own, others, dram))
    return [
        f"what exceeds the HBM of {numbered('worker', ways)} goes to HBM of other workers, as long "
        f"as that has room, before DRAM: the kernel counts it as nearer (worker {rank}: {order}); "
        f"use {terms.policy('strict')}, or needs that fit"
    ]


def _exceeds(one: Aim, plan: MemoryPlan, targets: tuple[int, ...]) -> bool:
    """Whether not all that is meant for these nodes is expected there."""
    wanted = sum(part.bytes or 0 for part in one.parts if part.targets == targets)
    expected = dict(plan.expected)
    return sum(expected.get(node, 0) for node in targets) < wanted


def _taken_by_others(rank: int, aims: Sequence[Aim]) -> frozenset[int]:
    others = (one for other, one in enumerate(aims) if other != rank)
    return frozenset(node for one in others for node in one.targets)


def _way(
    memories: Memories, own: tuple[int, ...], one: Aim, taken: frozenset[int]
) -> tuple[tuple[int, ...], ...] | None:
    """The HBM that a part of the memory prefers, what `taken` HBM follows, and the own DRAM."""
    dram = memories.dram(own)
    for part in one.parts:
        if dram and (others := _before_dram(memories, own, part, dram, taken)):
            return part.targets, others, dram
    return None


def _before_dram(
    memories: Memories,
    own: tuple[int, ...],
    part: Part,
    dram: tuple[int, ...],
    taken: frozenset[int],
) -> tuple[int, ...]:
    """HBM among `taken` that fills before `dram`, for memory that is to be in other HBM."""
    if part.mode not in ("preferred", "preferred-many") or set(part.targets) & set(dram):
        return ()
    order = memories.order(part.mode, part.nodes, own)
    first = takewhile(lambda node: node not in dram, order)
    kinds = {node: memories.topology.node(node).kind for node in order}
    return tuple(
        node for node in first if kinds[node] == "hbm" and node in taken.difference(part.targets)
    )


def beyond_limit(allowed: AllowedResources, workers: int, needs: Sequence[Need]) -> str | None:
    """An error text if all workers' needs exceed their common limit; else None."""
    limit, each = allowed.memory_bytes, sum(need.bytes or 0 for need in needs)
    if limit is None or workers * each <= limit:
        return None
    return (
        f"{counted(workers, 'worker')} x {format_bytes(each)} = {format_bytes(workers * each)}, "
        f"but together they may use no more than {format_bytes(limit)}{by_whom(allowed)}"
    )


def check_strict(
    memories: Memories, aims: Sequence[Aim], budgets: Sequence[int], over_limit: str | None
) -> None:
    """Raise PlacementError if a need exceeds a worker's share, or all that is allowed."""
    limit, each = memories.allowed.memory_bytes, aims[0].parts[0].bytes
    if over_limit and limit is not None and each:
        raise PlacementError(
            f"{terms.policy('strict')}: {over_limit}: the kernel would kill one. Way out: "
            f"{_fewer(limit // each)}needs of at most {format_bytes(limit // len(aims))}, or a "
            "higher limit"
        )
    for rank, (one, budget) in enumerate(zip(aims, budgets, strict=True)):
        if not memories.unsized and (one.parts[0].bytes or 0) > budget:
            raise PlacementError(_too_much(memories, rank, aims, budget))


def _too_much(memories: Memories, rank: int, aims: Sequence[Aim], budget: int) -> str:
    (part,) = aims[rank].parts
    need = part.bytes or 0
    sharing = sum(not set(part.targets).isdisjoint(other.targets) for other in aims)
    free, cached = (
        sum(room[node] for node in part.targets)
        for room in (memories.free(), memories.reclaimable())
    )
    files = f" and {format_bytes(cached)} of cached files" if cached else ""
    fewer = _fewer((free + cached) // need, " there")
    return (
        f"{terms.policy('strict')}: worker {rank} needs {format_bytes(need)}, but its share of "
        f"{named(memories.topology, part.targets)} is {format_bytes(budget)} "
        f"({format_bytes(free)} free{files}, {counted(sharing, 'worker')} there): the kernel would "
        f"kill it. Way out: {fewer}needs of at most {format_bytes(budget)}, or "
        f"{terms.policy('spill')}"
    )


def _fewer(fitting: int, where: str = "") -> str:
    return f"at most {counted(fitting, 'worker')}{where}, " if fitting else ""


def reclaiming(memories: Memories, one: Aim, free_share: int) -> list[str]:
    """Why clean file pages count as room, for a worker whose share of free memory is less."""
    cached = sum(memories.reclaimable()[node] for node in one.targets)
    need = one.plan.need_bytes
    if one.plan.policy != "strict" or not cached or (need is not None and need <= free_share):
        return []
    return [
        f"{format_bytes(cached)} in {named(memories.topology, one.targets)} are cached files: they "
        "count as room, as the kernel drops them before it kills"
    ]
