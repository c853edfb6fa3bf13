from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from affinity.errors import PlacementError
from affinity.placement.memories import Memories
from affinity.placement.memory import Aim, aim
from affinity.placement.plan import Arena, Need, Request
from affinity.process.allowed import AllowedResources
from affinity.topology import SideCache, Topology

Machine = Callable[..., Topology]


def _aim(
    topology: Topology,
    own: tuple[int, ...] = (0,),
    mems: tuple[int, ...] | None = None,
    **words: Any,
) -> Aim:
    memories = Memories(topology, AllowedResources(topology.cpus, mems, said_by=("Slurm",)))
    return aim(memories, own, Request(**words))


def test_spill_prefers_hbm_alone_and_then_the_dram_of_its_cores(xeon_max: Topology) -> None:
    plan = _aim(xeon_max).plan
    assert (plan.policy, plan.mode, plan.nodes) == ("spill", "preferred", (2,))
    assert plan.order[:2] == (2, 0)
    assert plan.hbm


def test_spill_of_cores_on_two_nodes_prefers_both_hbms_and_no_dram(xeon_max: Topology) -> None:
    plan = _aim(xeon_max, (0, 1)).plan
    assert (plan.mode, plan.nodes) == ("preferred-many", (2, 3))
    assert plan.order == (2, 3, 0, 1)


def test_spill_without_hbm_needs_no_policy(machine: Machine) -> None:
    plan = _aim(machine(nodes=(4, 4), packages=2, distances="max")).plan
    assert (plan.mode, plan.nodes, plan.order, plan.hbm) == ("default", (), (0, 1), False)


def test_dram_asked_for_beside_hbm_needs_no_policy(xeon_max: Topology) -> None:
    one = _aim(xeon_max, kind="dram")
    assert (one.plan.mode, one.plan.hbm, one.targets) == ("default", False, (0,))


def test_hbm_that_is_the_cores_own_memory_needs_no_policy(machine: Machine) -> None:
    plan = _aim(machine(changes={0: {"kind": "hbm"}})).plan
    assert (plan.mode, plan.hbm) == ("default", True)


def test_nearest_dram_is_preferred_where_the_own_may_not_be_used(machine: Machine) -> None:
    topology = machine(nodes=(4, 4), packages=2, distances="max")
    plan = _aim(topology, (0,), mems=(1,)).plan
    assert (plan.mode, plan.nodes) == ("preferred", (1,))
    assert "no DRAM next to NUMA node 0 may be used: DRAM node 1 is nearest" in plan.reasons


def test_without_hbm_and_dram_the_nearest_memory_has_to_do(machine: Machine) -> None:
    empty = {"memory_bytes": 0, "free_bytes": 0}
    topology = machine(hbm={1: 0}, changes={0: empty, 1: {"kind": "cxl"}})
    for policy in ("spill", "split"):
        plan = _aim(topology, policy=policy, needs=(Need("w", 1),)).plan
        assert (plan.mode, plan.nodes) == ("preferred", (1,))


def test_strict_binds_to_hbm_alone(xeon_max: Topology) -> None:
    plan = _aim(xeon_max, (1,), policy="strict").plan
    assert (plan.mode, plan.nodes, plan.order) == ("bind", (3,), (3,))


def test_strict_on_dram_binds_to_the_own_nodes(machine: Machine) -> None:
    plan = _aim(machine(nodes=(4, 4)), (0, 1), policy="strict").plan
    assert (plan.mode, plan.nodes) == ("bind", (0, 1))


def test_weighted_uses_hbm_and_dram_together(xeon_max: Topology) -> None:
    one = _aim(xeon_max, (1,), policy="weighted")
    assert (one.plan.mode, one.plan.nodes) == ("weighted-interleave", (1, 3))
    assert (one.plan.hbm, one.targets) == (True, (1, 3))


def test_weighted_with_one_memory_has_nothing_to_weigh(machine: Machine) -> None:
    assert _aim(machine(), policy="weighted").plan.mode == "default"


def test_split_puts_each_need_where_it_asks_to_be(xeon_max: Topology) -> None:
    needs = (Need("weights", 10, "hbm"), Need("data", None, "dram"), Need("rest", 1))
    plan = _aim(xeon_max, policy="split", needs=needs).plan
    assert (plan.mode, plan.nodes) == ("preferred", (0,))
    assert plan.arenas == (
        Arena("weights", "preferred", (2,), 10),
        Arena("data", "preferred", (0,), None),
        Arena("rest", "preferred", (2,), 1),
    )
    assert plan.hbm
    assert plan.need_bytes is None


def test_split_without_hbm_refuses_a_need_that_asks_for_it(machine: Machine) -> None:
    with pytest.raises(PlacementError, match="HBM asked for, but this machine has DRAM node 0"):
        _aim(machine(), policy="split", needs=(Need("weights", 10, "hbm"),))


def test_cache_and_none_tie_nothing(xeon_max: Topology) -> None:
    cache, none = (_aim(xeon_max, policy=policy).plan for policy in ("cache", "none"))
    assert (cache.mode, cache.nodes, cache.hbm) == ("default", (), False)
    assert (none.policy, none.mode, none.order) == ("none", "default", ())


def test_needs_add_up_unless_one_is_not_known(xeon_max: Topology) -> None:
    known, unknown = Need("weights", 3), Need("data", None)
    assert _aim(xeon_max, needs=(known, Need("more", 4))).plan.need_bytes == 7
    assert _aim(xeon_max, needs=(known, unknown)).plan.need_bytes is None
    assert _aim(xeon_max).plan.need_bytes is None


def test_hbm_asked_for_where_the_machine_has_none_is_refused(machine: Machine) -> None:
    with pytest.raises(PlacementError, match=r"has DRAM nodes 0-1 only: use kind 'best', or --hbm"):
        _aim(machine(nodes=(2, 2)), kind="hbm")


def test_hbm_asked_for_that_is_near_other_cores_only_is_refused(machine: Machine) -> None:
    topology = machine(nodes=(2, 2), hbm={2: 1})
    with pytest.raises(
        PlacementError, match=r"NUMA node 0 has none: HBM node 2 is near NUMA node 1"
    ):
        _aim(topology, (0,), kind="hbm")


def test_hbm_asked_for_that_may_not_be_used_names_who_said_so(xeon_max: Topology) -> None:
    with pytest.raises(PlacementError, match=r"HBM node 2 .*may not be used \(Slurm\).*mem-bind"):
        _aim(xeon_max, mems=(0, 1), kind="hbm")


def test_hbm_asked_for_in_cache_mode_points_to_the_policy(machine: Machine) -> None:
    cache = SideCache(16 << 30, 64, "direct", "made up")
    topology = machine(changes={0: {"side_caches": (cache,)}})
    with pytest.raises(PlacementError, match="use policy 'cache'"):
        _aim(topology, kind="hbm")


def test_dram_asked_for_on_a_machine_of_hbm_is_refused(machine: Machine) -> None:
    with pytest.raises(PlacementError, match="DRAM asked for, but this machine has HBM node 0"):
        _aim(machine(changes={0: {"kind": "hbm"}}), kind="dram")


@pytest.mark.parametrize(("own", "hidden"), [((0,), "DRAM node 0"), ((1,), "DRAM node 1")])
def test_dram_asked_for_that_may_not_be_used_names_who_said_so(
    xeon_max: Topology, own: tuple[int, ...], hidden: str
) -> None:
    with pytest.raises(PlacementError) as caught:
        _aim(xeon_max, own, mems=(2,), kind="dram")
    assert str(caught.value) == (
        f"memory in DRAM asked for, but {hidden} may not be used (Slurm): widen cpuset.mems, or "
        "srun --mem-bind=none where Slurm bound the memory; or use kind 'best'"
    )


def test_dram_elsewhere_that_may_not_be_used_is_named_too(machine: Machine) -> None:
    topology = machine(nodes=(4, 4), changes={0: {"kind": "hbm"}})
    with pytest.raises(PlacementError, match=r"but DRAM node 1 may not be used \(Slurm\)"):
        _aim(topology, (0,), mems=(0,), kind="dram")


def test_hbm_asked_for_lists_also_what_may_not_be_used(machine: Machine) -> None:
    with pytest.raises(PlacementError, match="this machine has DRAM nodes 0-1 only"):
        _aim(machine(nodes=(2, 2)), mems=(0,), kind="hbm")


def test_reasons_give_the_evidence_for_kind_and_nearness(xeon_max: Topology) -> None:
    reasons = _aim(xeon_max).plan.reasons
    assert reasons[0] == "HBM node 2 first, then DRAM node 0 as the next nearest"
    assert "HBM node 2 is HBM: the user says so" in reasons
    assert "HBM node 2 is near NUMA node 0: it was told" in reasons


def test_needs_of_no_kind_follow_the_kind_of_the_request(xeon_max: Topology) -> None:
    needs = (Need("weights", 1, "hbm"), Need("rest", 1))
    arenas = _aim(xeon_max, policy="split", kind="dram", needs=needs).plan.arenas
    assert [arena.nodes for arena in arenas] == [(2,), (0,)]


def test_weighted_in_dram_leaves_out_the_hbm(xeon_max: Topology) -> None:
    plan = _aim(xeon_max, (0, 1), policy="weighted", kind="dram").plan
    assert (plan.mode, plan.nodes, plan.hbm) == ("weighted-interleave", (0, 1), False)
