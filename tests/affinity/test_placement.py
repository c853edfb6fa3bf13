from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affinity.errors import PlacementError
from affinity.placement import ALIGNED_SHARE, physical_cores, place_workers
from affinity.topology import Core, NumaNode, Topology, read_topology


def _topology(cores_per_node: list[int], threads: int = 1, nodes_per_package: int = 1) -> Topology:
    """A machine whose first hardware threads are numbered before all the second ones."""
    total = sum(cores_per_node)
    homes = [node for node, count in enumerate(cores_per_node) for _ in range(count)]
    cores = tuple(
        Core(core, node // nodes_per_package, node, tuple(core + total * t for t in range(threads)))
        for core, node in enumerate(homes)
    )
    nodes = tuple(
        NumaNode(
            node, tuple(c for core in cores if core.numa_node == node for c in core.cpus), 1, 1,
            "dram", "made up",
        )
        for node in range(len(cores_per_node))
    )  # fmt: skip
    return Topology("made up", "made up", (), cores, nodes, ())


@st.composite
def _requests(draw: st.DrawFn) -> tuple[Topology, set[int], int]:
    cores_per_node = draw(st.lists(st.integers(1, 20), min_size=1, max_size=8))
    topology = _topology(
        cores_per_node, draw(st.integers(1, 4)), nodes_per_package=draw(st.integers(1, 4))
    )
    allowed = set(topology.cpus)
    if draw(st.booleans()):
        allowed = draw(st.sets(st.sampled_from(topology.cpus), min_size=1))
    return topology, allowed, draw(st.integers(1, len(physical_cores(topology, allowed))))


@settings(deadline=None)
@given(_requests())
def test_every_allowed_cpu_goes_to_exactly_one_worker(
    request_: tuple[Topology, set[int], int],
) -> None:
    topology, allowed, workers = request_
    placements = place_workers(topology, allowed, workers)
    given_out = [cpu for placement in placements for cpu in placement.cpus]
    assert [placement.rank for placement in placements] == list(range(workers))
    assert len(given_out) == len(set(given_out))
    assert set(given_out) == allowed


@settings(deadline=None)
@given(_requests())
def test_no_core_is_cut_and_threads_count_cores(
    request_: tuple[Topology, set[int], int],
) -> None:
    topology, allowed, workers = request_
    for placement in place_workers(topology, allowed, workers):
        touched = [core for core in topology.cores if set(core.cpus) & set(placement.cpus)]
        assert {c for core in touched for c in core.cpus} & allowed == set(placement.cpus)
        assert placement.threads == len(touched) >= 1
        assert placement.numa_nodes == tuple(sorted({core.numa_node for core in touched}))


@settings(deadline=None)
@given(_requests())
def test_smallest_worker_has_nearly_an_even_share(
    request_: tuple[Topology, set[int], int],
) -> None:
    topology, allowed, workers = request_
    even = len(physical_cores(topology, allowed)) // workers
    placements = place_workers(topology, allowed, workers)
    assert min(placement.threads for placement in placements) >= ALIGNED_SHARE * even


@settings(deadline=None)
@given(_requests())
def test_workers_follow_one_another_in_numa_order(
    request_: tuple[Topology, set[int], int],
) -> None:
    topology, allowed, workers = request_
    order = {cpu: at for at, core in enumerate(topology.cores) for cpu in core.cpus}
    spans = [
        (min(order[c] for c in placement.cpus), max(order[c] for c in placement.cpus))
        for placement in place_workers(topology, allowed, workers)
    ]
    assert all(before[1] < after[0] for before, after in pairwise(spans))


@pytest.mark.parametrize(
    ("cores_per_node", "workers", "threads"),
    [
        pytest.param([18, 18, 16, 16], 4, [18, 18, 16, 16], id="68 cores in 4 clusters"),
        pytest.param([18, 18, 16, 16], 8, [9, 9, 9, 9, 8, 8, 8, 8], id="two per cluster"),
        pytest.param([18, 18, 16, 16], 2, [36, 32], id="two clusters each"),
        pytest.param([8, 8], 3, [6, 5, 5], id="aligned would leave one worker twice the other"),
        pytest.param([68], 3, [23, 23, 22], id="one node"),
        pytest.param([1, 30], 2, [16, 15], id="one tiny node"),
        pytest.param([2, 2], 4, [1, 1, 1, 1], id="one core each"),
    ],
)
def test_groups_keep_to_numa_nodes_where_that_costs_little(
    cores_per_node: list[int], workers: int, threads: list[int]
) -> None:
    topology = _topology(cores_per_node, nodes_per_package=4)
    placements = place_workers(topology, topology.cpus, workers)
    assert [placement.threads for placement in placements] == threads


def test_cluster_machine_gives_each_worker_its_own_node(
    machine_files: Callable[[str], Any],
) -> None:
    topology = read_topology(machine_files("knights_landing").root)
    placements = place_workers(topology, topology.cpus, 4)
    assert [placement.numa_nodes for placement in placements] == [(0,), (1,), (2,), (3,)]
    assert placements[1].cpus == (2, 3, 10, 11, 18, 19, 26, 27)
    assert placements[1].threads == 2


def test_core_with_one_allowed_thread_counts_as_a_core() -> None:
    topology = _topology([2], threads=2)
    assert [core.cpus for core in physical_cores(topology, [1, 2, 3])] == [(2,), (1, 3)]


def test_more_workers_than_cores_names_cpus_cores_and_ways_out() -> None:
    topology = _topology([4], threads=2)
    with pytest.raises(PlacementError) as caught:
        place_workers(topology, [0, 1, 4, 5], 4)
    assert str(caught.value) == (
        "4 workers asked for, but the allowed cpus 0-1,4-5 hold 2 physical cores: "
        "use --workers 2 or fewer, or widen the cpuset"
    )
    with pytest.raises(PlacementError, match="1 physical core: use --workers 1, or"):
        place_workers(topology, [0], 2)


@pytest.mark.parametrize("workers", [0, -2])
def test_less_than_one_worker_is_refused(workers: int) -> None:
    with pytest.raises(PlacementError, match=f"^{workers} workers asked for"):
        place_workers(_topology([2]), [0, 1], workers)


def test_allowed_cpus_that_the_machine_lacks_are_named() -> None:
    with pytest.raises(PlacementError, match=r"cpus 2,7 are allowed.*only 0-1"):
        place_workers(_topology([2]), [0, 2, 7], 1)


def test_empty_cpuset_is_refused() -> None:
    with pytest.raises(PlacementError, match="no cpus are allowed"):
        place_workers(_topology([2]), [], 1)


def test_placement_lists_its_cpus_core_by_core() -> None:
    first, second = place_workers(_topology([4], threads=2), range(8), 2)
    assert first.cores == ((0, 4), (1, 5))
    assert second.cores == ((2, 6), (3, 7))
