"""How much of each memory a worker may count on, and whether what it needs fits.

P workers that each need their own weights and data want P x (weights + data) of the fast memory
(You, Buluc, Demmel, SC17); what exceeds it spills, or is refused beforehand.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from affinity.errors import PlacementError
from affinity.placement.fitting import Filling
from affinity.placement.memories import Memories
from affinity.placement.memory import Aim, aim
from affinity.placement.plan import MemoryPlan, Placement
from affinity.placement.request import Request, WantedKind
from affinity.placement.words import by_whom, counted, named, numbered, size


def plan_memory(
    memories: Memories, seats: Sequence[Placement], request: Request
) -> tuple[list[MemoryPlan], list[str]]:
    """The memory of all workers, and notes on what fits and what spills.

    Raises PlacementError where a kind of memory is asked for that there is not, and with the policy
    `strict` where what is needed exceeds a worker's share.
    """
    aims = {
        own: aim(memories, own, request) for own in dict.fromkeys(seat.numa_nodes for seat in seats)
    }
    chosen = [aims[seat.numa_nodes] for seat in seats]
    budgets = _budgets(memories, chosen)
    if request.policy == "strict" and memories.sized:
        _check_strict(memories, chosen, budgets)
    filling = Filling(memories, seats, chosen)
    known = memories.sized and chosen[0].plan.need_bytes is not None
    plans = [
        replace(
            one.plan,
            budget_bytes=budget,
            expected=filling.expected(seat.rank, one.plan.order) if known else (),
        )
        for seat, one, budget in zip(seats, chosen, budgets, strict=True)
    ]
    notes = [*_hidden_notes(memories, seats, request), *_unknown_notes(memories, chosen, budgets)]
    if known:
        notes += [*filling.notes(request), *_cache_notes(memories, plans)]
    return plans, [*notes, *_idle_policy_notes(memories, chosen, request)]


def _budgets(memories: Memories, aims: Sequence[Aim]) -> list[int]:
    """Free bytes of every node, shared equally by the workers whose memory is meant for it."""
    users = Counter(node for one in aims for node in one.targets)
    free = memories.free()
    return [sum(free[node] // users[node] for node in one.targets) for one in aims]


def _check_strict(memories: Memories, aims: Sequence[Aim], budgets: Sequence[int]) -> None:
    for rank, (one, budget) in enumerate(zip(aims, budgets, strict=True)):
        (part,) = one.parts
        need = part.bytes or 0
        if need > budget:
            sharing = sum(not set(one.targets).isdisjoint(other.targets) for other in aims)
            free = sum(memories.free()[node] for node in part.targets)
            raise PlacementError(
                f"policy 'strict': worker {rank} needs {size(need)}, but its share of "
                f"{named(memories.topology, part.targets)} is {size(budget)} ({size(free)} free, "
                f"{counted(sharing, 'worker')} there): the kernel would kill it. "
                f"Way out: {_fewer(free // need)}needs of at most {size(budget)}, or policy 'spill'"
            )


def _fewer(fitting: int) -> str:
    return f"at most {counted(fitting, 'worker')} there, " if fitting else ""


def _unknown_notes(memories: Memories, aims: Sequence[Aim], budgets: Sequence[int]) -> list[str]:
    plan = aims[0].plan
    if not memories.sized and (plan.need_bytes or plan.policy == "strict"):
        return ["how much memory this machine has is not known, so nothing was checked"]
    if plan.policy != "strict" or plan.need_bytes is not None:
        return []
    return [
        "policy 'strict', but what a worker needs is not known, so nothing was checked: the kernel "
        f"kills one that takes more than {size(min(budgets))}"
    ]


def _hidden_notes(memories: Memories, seats: Sequence[Placement], request: Request) -> list[str]:
    """Memory next to workers that they could use, were it allowed."""
    kinds: list[WantedKind] = ["dram"] if request.kind == "dram" else ["dram", "hbm"]
    ranks: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
    for seat in seats:
        ranks[seat.numa_nodes].append(seat.rank)
    return [
        f"{named(memories.topology, hidden)} near {numbered('worker', who)} may not be used"
        f"{by_whom(memories.allowed)}: widen cpuset.mems, or srun --mem-bind=none where Slurm "
        "bound the memory"
        for own, who in ranks.items()
        if (hidden := memories.hidden(own, kinds))
    ]


def _idle_policy_notes(memories: Memories, aims: Sequence[Aim], request: Request) -> list[str]:
    """Policies that the machine gives nothing to do."""
    if request.policy == "cache" and not _side_caches(memories):
        return ["policy 'cache', but no memory-side cache is known here: it does nothing"]
    if request.policy == "weighted" and (alone := [a for a in aims if a.plan.mode == "default"]):
        where = named(memories.topology, sorted({node for a in alone for node in a.targets}))
        return [f"policy 'weighted', but next to the cores there is only {where}: nothing to weigh"]
    return []


def _side_caches(memories: Memories) -> dict[int, int]:
    nodes = map(memories.topology.node, memories.ids)
    return {
        node.id: sum(c.size_bytes for c in node.side_caches) for node in nodes if node.side_caches
    }


def _cache_notes(memories: Memories, plans: Sequence[MemoryPlan]) -> list[str]:
    """Side caches that are smaller than what lies behind them."""
    used: Counter[int] = Counter()
    for plan in plans:
        used.update(dict(plan.expected))
    return [
        f"{size(used[node])} in {named(memories.topology, (node,))} exceed its memory-side cache "
        f"of {size(cache)}: the rest waits for the memory behind it; need less, or "
        "use fewer workers"
        for node, cache in _side_caches(memories).items()
        if used[node] > cache
    ]
