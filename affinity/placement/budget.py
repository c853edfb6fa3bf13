"""The share of each memory that a worker may use, and whether its working set fits.

P workers that each need their own weights and data want P x (weights + data) of the fast memory
(You, Buluc, Demmel, SC17). What exceeds it spills, or is refused before the run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from affinity import terms
from affinity.numbers import format_bytes
from affinity.placement.fitting import Filling
from affinity.placement.memories import Memories
from affinity.placement.memory import Aim, aim, forbidden
from affinity.placement.plan import MemoryPlan, Placement, Request, WantedKind
from affinity.placement.policies import beyond_limit, check_strict, reclaiming, spill_notes
from affinity.placement.wording import named, numbered


def plan_memory(
    memories: Memories, seats: Sequence[Placement], request: Request
) -> tuple[list[MemoryPlan], list[str]]:
    """The memory of all workers, and notes on what fits and what spills.

    Raises PlacementError where a requested kind of memory does not exist, and with the policy
    `strict` where the need exceeds a worker's share.
    """
    aims = {
        (own, beside): aim(
            memories, own, _beside_gpu(memories, own, request) if beside else request
        )
        for own, beside in dict.fromkeys((seat.numa_nodes, bool(seat.gpu)) for seat in seats)
    }
    chosen = [aims[seat.numa_nodes, bool(seat.gpu)] for seat in seats]
    budgets = free = _budgets(memories, chosen, memories.free())
    over = beyond_limit(memories.allowed, len(seats), request.needs)
    if request.policy == "strict":
        budgets = _budgets(memories, chosen, memories.free_or_reclaimable())
        check_strict(memories, chosen, budgets, over)
    filling = Filling(memories, seats, chosen)
    known = not memories.unsized and chosen[0].plan.need_bytes is not None
    plans = [
        replace(
            one.plan,
            budget_bytes=budget,
            expected=filling.expected(seat.rank, one.plan.order) if known else (),
            reasons=(*one.plan.reasons, *reclaiming(memories, one, share)),
        )
        for seat, one, budget, share in zip(seats, chosen, budgets, free, strict=True)
    ]
    notes = [*_hidden_notes(memories, seats, request), *_unknown_notes(memories, chosen, budgets)]
    notes += [f"{over}: the kernel swaps, or kills one"] if over else []
    if known:
        notes += [*filling.notes(request, fits=not over), *_cache_notes(memories, plans)]
    notes += spill_notes(memories, seats, chosen, plans)
    return plans, [*notes, *_idle_policy_notes(memories, chosen, request)]


def _beside_gpu(memories: Memories, own: tuple[int, ...], request: Request) -> Request:
    """The request for memory that a GPU copies from and to: DRAM is as fast for it as HBM."""
    free_to_choose = request.kind == "best" and request.policy in ("strict", "spill")
    return replace(request, kind="dram") if free_to_choose and memories.dram(own) else request


def _budgets(memories: Memories, aims: Sequence[Aim], room: Mapping[int, int]) -> list[int]:
    """The room on every node, shared equally by the workers whose memory is meant for it.

    At most a worker's part of what all together may use.
    """
    users = Counter(node for one in aims for node in one.targets)
    shares = [sum(room[node] // users[node] for node in one.targets) for one in aims]
    limit = memories.allowed.memory_bytes
    return shares if limit is None else [min(share, limit // len(aims)) for share in shares]


def _unknown_notes(memories: Memories, aims: Sequence[Aim], budgets: Sequence[int]) -> list[str]:
    plan = aims[0].plan
    if memories.unsized and (plan.need_bytes or plan.policy == "strict"):
        some = memories.unsized != memories.ids
        which = (
            f"{named(memories.topology, memories.unsized)} holds" if some else "this machine has"
        )
        return [f"how much memory {which} is not known, so nothing was checked"]
    if plan.policy != "strict" or plan.need_bytes is not None:
        return []
    return [
        f"{terms.policy('strict')}, but what a worker needs is not known, so nothing was "
        f"checked: the kernel kills one that takes more than {format_bytes(min(budgets))}"
    ]


def _hidden_notes(memories: Memories, seats: Sequence[Placement], request: Request) -> list[str]:
    """Notes on memory next to workers that is not allowed."""
    kinds: list[WantedKind] = ["dram"] if request.kind == "dram" else ["dram", "hbm"]
    ranks: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
    for seat in seats:
        ranks[seat.numa_nodes].append(seat.rank)
    return [
        f"{named(memories.topology, hidden)} near {numbered('worker', who)} {forbidden(memories)}"
        for own, who in ranks.items()
        if (hidden := memories.hidden(own, kinds))
    ]


def _idle_policy_notes(memories: Memories, aims: Sequence[Aim], request: Request) -> list[str]:
    """Notes on policies that have no effect on this machine."""
    if request.policy == "cache" and not _side_caches(memories):
        return [f"{terms.policy('cache')}, but no memory-side cache is known here: it does nothing"]
    if request.policy == "weighted" and (alone := [a for a in aims if a.plan.mode == "default"]):
        where = named(memories.topology, sorted({node for a in alone for node in a.targets}))
        return [
            f"{terms.policy('weighted')}, but next to the cores there is only {where}: nothing "
            "to weigh"
        ]
    return []


def _side_caches(memories: Memories) -> dict[int, int]:
    nodes = map(memories.topology.node, memories.ids)
    return {
        node.id: sum(c.size_bytes for c in node.side_caches) for node in nodes if node.side_caches
    }


def _cache_notes(memories: Memories, plans: Sequence[MemoryPlan]) -> list[str]:
    """Notes on memory-side caches that are smaller than the memory behind them."""
    used: Counter[int] = Counter()
    for plan in plans:
        used.update(dict(plan.expected))
    return [
        f"{format_bytes(used[node])} in {named(memories.topology, (node,))} exceed its "
        f"memory-side cache of {format_bytes(cache)}: the rest waits for the memory behind "
        "it; need less, or use fewer workers"
        for node, cache in _side_caches(memories).items()
        if used[node] > cache
    ]
