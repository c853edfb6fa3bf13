"""The memory that is used first when HBM is full, if that is not the DRAM of the same cores.

The kernel goes on with the node nearest to the HBM. A node without cpus counts as nearer than one
with cpus at the same distance: on a Xeon Max in SNC-4, the HBM of the other clusters comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from affinity import terms
from affinity.placement.memories import Memories
from affinity.placement.memory import Aim, Part
from affinity.placement.plan import MemoryPlan, Placement
from affinity.placement.wording import named, numbered


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
