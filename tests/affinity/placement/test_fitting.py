"""x"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from affinity.placement.fitting import Demand, fill, portions
from affinity.placement.place import place_workers
from affinity.placement.plan import Need, Request
from affinity.process.allowed import AllowedResources
from affinity.topology import Topology

_orders = st.permutations((0, 1, 2)).flatmap(
    lambda order: st.integers(1, 3).map(lambda length: tuple(order[:length]))
)
_demands = st.lists(st.builds(Demand, st.integers(0, 100), _orders), max_size=8)
_free = st.fixed_dictionaries({node: st.integers(0, 200) for node in range(3)})


@given(_demands, _free)
def test_nothing_is_placed_twice_or_beyond_what_is_free(
    demands: list[Demand], free: dict[int, int]
) -> None:
    placed = fill(demands, free)
    for node, room in free.items():
        assert sum(part.get(node, 0) for part in placed) <= room
    for demand, part in zip(demands, placed, strict=True):
        assert sum(part.values()) <= demand.bytes
        assert set(part) <= set(demand.order)


@given(_demands, _free)
def test_who_goes_without_left_no_room_in_its_nodes(
    demands: list[Demand], free: dict[int, int]
) -> None:
    placed = fill(demands, free)
    for demand, part in zip(demands, placed, strict=True):
        if sum(part.values()) < demand.bytes:
            for node in demand.order:
                assert free[node] - sum(other.get(node, 0) for other in placed) == 0


def test_equal_demands_share_a_node_equally_and_spill_to_their_next() -> None:
    demands = [Demand(30, (2, 0)), Demand(30, (2, 1))]
    assert fill(demands, {0: 100, 1: 100, 2: 40}) == [{2: 20, 0: 10}, {2: 20, 1: 10}]


def test_small_demand_leaves_its_room_to_the_others() -> None:
    demands = [Demand(50, (0,)), Demand(10, (0,)), Demand(50, (0,))]
    assert fill(demands, {0: 70}) == [{0: 30}, {0: 10}, {0: 30}]


def test_overflow_comes_after_those_whose_first_node_it_is() -> None:
    demands = [Demand(30, (0, 1)), Demand(20, (1,))]
    assert fill(demands, {0: 10, 1: 25}) == [{0: 10, 1: 5}, {1: 20}]


@given(st.integers(0, 10**12), st.lists(st.integers(1, 1000), min_size=1, max_size=10))
def test_portions_add_up_and_follow_the_weights(number: int, weights: list[int]) -> None:
    parts = portions(number, weights)
    assert sum(parts) == number
    for part, weight in zip(parts, weights, strict=True):
        assert abs(part - number * weight / sum(weights)) < 1 + number * 1e-15


Machine = Callable[..., Topology]
GIB = 1024**3

ALEXNET_AND_CIFAR = (Need("weights", 249_000_000), Need("data", 687_000_000))
"""The example of SC17: 16 groups of a Xeon Phi's cores, each with its own weights and data."""


def _quadrant_flat(machine: Machine) -> Topology:
    return machine(
        nodes=(68,), threads=4, tile=2, gib=96, hbm={1: 0}, hbm_gib=16, distances="knl",
        model="Intel(R) Xeon Phi(TM) CPU 7250",
    )  # fmt: skip


def test_sixteen_copies_of_weights_and_data_fit_in_mcdram(machine: Machine) -> None:
    phi = _quadrant_flat(machine)
    plan = place_workers(phi, AllowedResources(phi.cpus), Request(16, needs=ALEXNET_AND_CIFAR))
    assert (
        "16 workers x 892.6 MiB (weights 237.5 MiB + data 655.2 MiB) = 13.9 GiB fit in MCDRAM "
        "node 1 (16.0 GiB free of 16.0 GiB)"
    ) in plan.notes
    assert {worker.memory.expected for worker in plan.workers} == {((1, 936_000_000),)}


def test_of_twenty_copies_the_rest_spills_to_dram(machine: Machine) -> None:
    phi = _quadrant_flat(machine)
    plan = place_workers(phi, AllowedResources(phi.cpus), Request(20, needs=ALEXNET_AND_CIFAR))
    (note,) = [note for note in plan.notes if "892.6 MiB" in note]
    assert note.endswith("= 17.4 GiB: 16.0 GiB in MCDRAM node 1 and 1.4 GiB spill to DRAM node 0")
    (mcdram, part), (dram, rest) = plan.workers[0].memory.expected
    assert (mcdram, dram) == (1, 0)
    assert part == 16 * GIB // 20
    assert part + rest == 936_000_000


def test_groups_that_fit_alike_are_told_in_one_note(phi: Topology) -> None:
    request = Request("numa", needs=(Need("w", 3 * GIB),))
    plan = place_workers(phi, AllowedResources(phi.cpus), request)
    assert plan.notes == (
        "1 worker x 3.0 GiB = 3.0 GiB fit in each of MCDRAM nodes 4-7 (4.0 GiB free of 4.0 GiB)",
    )


def test_worker_on_two_nodes_fills_both_from_its_cores(xeon_max: Topology) -> None:
    request = Request(1, needs=(Need("w", 200 * GIB),))
    plan = place_workers(xeon_max, AllowedResources(xeon_max.cpus), request)
    assert plan.workers[0].memory.expected == (
        (2, 64 * GIB), (3, 64 * GIB), (0, 36 * GIB), (1, 36 * GIB),
    )  # fmt: skip


def test_pages_in_the_ratio_of_bandwidths_where_these_are_known(machine: Machine) -> None:
    changes = {
        0: {"bandwidth_mb_per_second": 250_000},
        1: {"bandwidth_mb_per_second": 750_000},
    }
    topology = machine(hbm={1: 0}, hbm_gib=64, distances="max", changes=changes)
    request = Request(1, policy="weighted", needs=(Need("w", 40 * GIB),))
    plan = place_workers(topology, AllowedResources(topology.cpus), request)
    assert plan.workers[0].memory.expected == ((0, 10 * GIB), (1, 30 * GIB))


def test_pages_one_by_one_where_bandwidths_are_not_known(machine: Machine) -> None:
    topology = machine(hbm={1: 0}, hbm_gib=64, distances="max")
    request = Request(1, policy="weighted", needs=(Need("w", 40 * GIB),))
    plan = place_workers(topology, AllowedResources(topology.cpus), request)
    assert plan.workers[0].memory.expected == ((0, 20 * GIB), (1, 20 * GIB))


def test_each_arena_is_told_by_its_name(xeon_max: Topology) -> None:
    needs = (Need("weights", 40 * GIB, "hbm"), Need("data", 20 * GIB, "dram"))
    request = Request(4, policy="split", needs=needs)
    plan = place_workers(xeon_max, AllowedResources(xeon_max.cpus), request)
    assert plan.notes == (
        "data: 2 workers x 20.0 GiB = 40.0 GiB fit in each of DRAM nodes 0-1 "
        "(512.0 GiB free of 512.0 GiB)",
        "weights: 2 workers x 40.0 GiB = 80.0 GiB: 64.0 GiB in HBM node 2 and 16.0 GiB spill to "
        "DRAM node 0",
        "weights: 2 workers x 40.0 GiB = 80.0 GiB: 64.0 GiB in HBM node 3 and 16.0 GiB spill to "
        "DRAM node 1",
    )


def test_what_finds_no_room_at_all_is_told(machine: Machine) -> None:
    topology = machine(gib=4)
    request = Request(2, needs=(Need("w", 3 * GIB),))
    plan = place_workers(topology, AllowedResources(topology.cpus), request)
    assert plan.notes == (
        "2 workers x 3.0 GiB = 6.0 GiB: 4.0 GiB in DRAM node 0 and 2.0 GiB find no room at all: "
        "swapped, or the worker is killed",
    )


def test_cached_files_make_room_once_all_nodes_are_full(machine: Machine) -> None:
    changes = {0: {"free_bytes": 2 * GIB, "reclaimable_bytes": 9 * GIB}}
    topology = machine(gib=16, changes=changes)
    plan = place_workers(
        topology, AllowedResources(topology.cpus), Request(2, needs=(Need("w", 3 * GIB),))
    )
    assert plan.notes == (
        "2 workers x 3.0 GiB = 6.0 GiB fit in DRAM node 0 (2.0 GiB free of 16.0 GiB, the rest in "
        "place of cached files)",
    )


def test_more_cores_on_a_node_fill_more_of_it(machine: Machine) -> None:
    topology = machine(nodes=(3, 1))
    plan = place_workers(
        topology, AllowedResources(topology.cpus), Request(1, needs=(Need("w", 4 * GIB),))
    )
    assert plan.workers[0].memory.expected == ((0, 3 * GIB), (1, GIB))
