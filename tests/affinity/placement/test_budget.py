from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from affinity.errors import PlacementError
from affinity.placement.budget import plan_memory
from affinity.placement.memories import Memories
from affinity.placement.plan import MemoryPlan, Need, Placement, Request
from affinity.placement.reserving import seat
from affinity.process.allowed import AllowedResources
from affinity.topology import SideCache, Topology

Machine = Callable[..., Topology]
GIB = 1024**3


def _plan(
    topology: Topology,
    cuts: Sequence[slice],
    mems: tuple[int, ...] | None = None,
    limit: int | None = None,
    **words: Any,
) -> tuple[list[MemoryPlan], list[str]]:
    """The memory of workers on these cores of the machine."""
    request = Request(**words)
    seats: list[Placement] = [seat(rank, topology.cores[c], request) for rank, c in enumerate(cuts)]
    allowed = AllowedResources(topology.cpus, mems, said_by=("Slurm",), memory_bytes=limit)
    memories = Memories(topology, allowed)
    return plan_memory(memories, seats, request)


HALVES = (slice(0, 26), slice(26, 52))  # of the first package of `xeon_max`
PACKAGES = (slice(0, 52), slice(52, 104))


def test_workers_of_a_node_share_its_hbm(xeon_max: Topology) -> None:
    plans, _ = _plan(xeon_max, [*HALVES, PACKAGES[1]])
    assert [plan.budget_bytes for plan in plans] == [32 * GIB, 32 * GIB, 64 * GIB]


def test_only_free_memory_is_shared(machine: Machine) -> None:
    topology = machine(nodes=(4,), hbm={1: 0}, hbm_gib=16, changes={1: {"free_bytes": 7}})
    plans, _ = _plan(topology, [slice(0, 2), slice(2, 4)])
    assert [plan.budget_bytes for plan in plans] == [3, 3]


def test_worker_on_two_nodes_counts_on_its_part_of_both(xeon_max: Topology) -> None:
    plans, _ = _plan(xeon_max, [slice(0, 26), slice(26, 104)])
    assert [plan.budget_bytes for plan in plans] == [32 * GIB, 96 * GIB]


def test_what_exceeds_the_hbm_is_expected_in_the_own_dram(xeon_max: Topology) -> None:
    plans, notes = _plan(xeon_max, HALVES, needs=(Need("data", 40 * GIB),))
    assert [plan.expected for plan in plans] == [((2, 32 * GIB), (0, 8 * GIB))] * 2
    assert notes == [
        "2 workers x 40.0 GiB = 80.0 GiB: 64.0 GiB in HBM node 2 and 16.0 GiB spill to DRAM node 0"
    ]


def test_unknown_needs_leave_open_what_to_expect(xeon_max: Topology) -> None:
    plans, notes = _plan(xeon_max, HALVES, needs=(Need("a", 1), Need("b", None)))
    assert [plan.expected for plan in plans] == [(), ()]
    assert notes == []


def test_strict_refuses_what_does_not_fit_with_the_number_that_does(xeon_max: Topology) -> None:
    with pytest.raises(PlacementError) as caught:
        _plan(xeon_max, HALVES, policy="strict", needs=(Need("data", 40 * GIB),))
    assert str(caught.value) == (
        "policy 'strict': worker 0 needs 40.0 GiB, but its share of HBM node 2 is 32.0 GiB "
        "(64.0 GiB free, 2 workers there): the kernel would kill it. Way out: at most 1 worker "
        "there, needs of at most 32.0 GiB, or policy 'spill'"
    )


def test_strict_refuses_as_soon_as_the_known_needs_are_too_much(xeon_max: Topology) -> None:
    needs = (Need("data", 65 * GIB), Need("rest", None))
    with pytest.raises(PlacementError, match=r"Way out: needs of at most 64.0 GiB, or"):
        _plan(xeon_max, PACKAGES, policy="strict", needs=needs)


def test_strict_accepts_what_just_fits(xeon_max: Topology) -> None:
    plans, _ = _plan(xeon_max, HALVES, policy="strict", needs=(Need("data", 32 * GIB),))
    assert plans[1].expected == ((2, 32 * GIB),)


def test_strict_with_unknown_needs_says_that_nothing_was_checked(xeon_max: Topology) -> None:
    _, (note,) = _plan(xeon_max, PACKAGES, policy="strict")
    assert "nothing was checked" in note
    assert note.endswith("takes more than 64.0 GiB")


def test_hbm_that_may_not_be_used_is_noted(xeon_max: Topology) -> None:
    plans, notes = _plan(xeon_max, PACKAGES, mems=(0, 1, 3))
    assert [plan.nodes for plan in plans] == [(), (3,)]
    assert notes == [
        "HBM node 2 near worker 0 may not be used (Slurm): widen cpuset.mems, or srun "
        "--mem-bind=none where Slurm bound the memory"
    ]


def test_workers_that_exceed_the_side_cache_are_noted(machine: Machine) -> None:
    cache = {"side_caches": (SideCache(16 * GIB, 64, "direct", "made up"),)}
    topology = machine(nodes=(8,), gib=96, changes={0: cache})
    halves = (slice(0, 4), slice(4, 8))
    _, notes = _plan(topology, halves, policy="cache", needs=(Need("data", 9 * GIB),))
    assert notes[-1] == (
        "18.0 GiB in DRAM node 0 exceed its memory-side cache of 16.0 GiB: the rest waits for "
        "the memory behind it; need less, or use fewer workers"
    )
    _, notes = _plan(topology, halves, policy="cache", needs=(Need("data", 8 * GIB),))
    assert not any("exceed" in note for note in notes)


def test_policies_that_do_nothing_here_say_so(machine: Machine) -> None:
    _, (cache,) = _plan(machine(), [slice(0, 4)], policy="cache")
    assert "no memory-side cache is known" in cache
    _, (weighted,) = _plan(machine(), [slice(0, 4)], policy="weighted")
    assert weighted.endswith("there is only DRAM node 0: nothing to weigh")


def test_split_shares_dram_and_hbm(xeon_max: Topology) -> None:
    needs = (Need("weights", 20 * GIB, "hbm"), Need("data", 30 * GIB, "dram"))
    plans, _ = _plan(xeon_max, HALVES, policy="split", needs=needs)
    assert plans[0].budget_bytes == (32 + 256) * GIB
    assert plans[0].expected == ((0, 30 * GIB), (2, 20 * GIB))


def test_machine_of_unknown_memory_sizes_is_not_checked(machine: Machine) -> None:
    topology = machine(nodes=(4,), gib=0)
    for policy in ("strict", "spill"):
        plans, notes = _plan(topology, [slice(0, 4)], policy=policy, needs=(Need("w", GIB),))
        assert plans[0].expected == ()
        assert notes == ["how much memory this machine has is not known, so nothing was checked"]


def test_budgets_end_at_each_workers_part_of_what_all_may_use(xeon_max: Topology) -> None:
    plans, notes = _plan(xeon_max, [*HALVES, PACKAGES[1]], limit=120 * GIB)
    assert [plan.budget_bytes for plan in plans] == [32 * GIB, 32 * GIB, 40 * GIB]
    assert notes == []


def test_needs_beyond_the_limit_of_memory_are_noted(xeon_max: Topology) -> None:
    needs = (Need("weights", 10 * GIB), Need("data", 14 * GIB))
    plans, notes = _plan(xeon_max, HALVES, limit=40 * GIB, needs=needs)
    assert notes == [
        "2 workers x 24.0 GiB = 48.0 GiB, but together they may use no more than 40.0 GiB "
        "(Slurm): the kernel swaps, or kills one"
    ]
    assert plans[0].expected == ((2, 24 * GIB),)
    _, notes = _plan(xeon_max, HALVES, limit=48 * GIB, needs=needs)
    (note,) = notes
    assert note.endswith("= 48.0 GiB fit in HBM node 2 (64.0 GiB free of 64.0 GiB)")


def test_hbm_of_unknown_size_is_used_but_not_checked(machine: Machine) -> None:
    untold = {"memory_bytes": 0, "free_bytes": 0, "size_told": False}
    topology = machine(nodes=(4,), hbm={1: 0}, changes={1: untold})
    for policy in ("strict", "spill"):
        plans, notes = _plan(topology, [slice(0, 4)], policy=policy, needs=(Need("w", GIB),))
        assert (plans[0].nodes, plans[0].expected) == ((1,), ())
        assert notes == ["how much memory HBM node 1 holds is not known, so nothing was checked"]


def test_limit_counts_also_where_memory_is_left_to_the_kernel(xeon_max: Topology) -> None:
    _, notes = _plan(xeon_max, HALVES, limit=GIB, policy="none", needs=(Need("w", GIB),))
    assert notes == [
        "2 workers x 1.0 GiB = 2.0 GiB, but together they may use no more than 1.0 GiB (Slurm): "
        "the kernel swaps, or kills one"
    ]


def test_only_strict_counts_on_cached_files_and_says_so(machine: Machine) -> None:
    changes = {1: {"free_bytes": 6 * GIB, "reclaimable_bytes": 10 * GIB}}
    topology = machine(nodes=(4,), hbm={1: 0}, hbm_gib=16, distances="max", changes=changes)
    halves, needs = (slice(0, 2), slice(2, 4)), (Need("w", 5 * GIB),)
    plans, _ = _plan(topology, halves, policy="strict", needs=needs)
    assert [plan.budget_bytes for plan in plans] == [8 * GIB, 8 * GIB]
    assert plans[0].expected == ((1, 5 * GIB),)
    assert plans[0].reasons[-1] == (
        "10.0 GiB in HBM node 1 are cached files: they count as room, as the kernel drops them "
        "before it kills"
    )
    plans, _ = _plan(topology, halves, policy="spill", needs=needs)
    assert [plan.budget_bytes for plan in plans] == [3 * GIB, 3 * GIB]
    assert plans[0].expected == ((1, 3 * GIB), (0, 2 * GIB))
    assert not any("cached" in reason for reason in plans[0].reasons)


def test_cached_files_are_no_matter_where_what_is_free_is_enough(machine: Machine) -> None:
    topology = machine(nodes=(4,), changes={0: {"reclaimable_bytes": GIB}})
    plans, _ = _plan(topology, [slice(0, 4)], policy="strict", needs=(Need("w", 64 * GIB),))
    assert not any("cached" in reason for reason in plans[0].reasons)
