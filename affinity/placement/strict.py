"""Refuses a plan that does not fit, where the kernel would kill the process later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from affinity import terms
from affinity.errors import PlacementError
from affinity.placement.memories import Memories
from affinity.placement.memory import Aim
from affinity.placement.request import Need
from affinity.placement.wording import by_whom, counted, named
from affinity.sizes import format_bytes

if TYPE_CHECKING:
    from affinity.process.allowed import AllowedResources


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
