from __future__ import annotations

import pytest

from affinity import AllowedResources, PlacementError, Request, Reserve
from affinity.cli.fit_workers import place_as_many
from affinity.topology import Topology


def _sizes(topology: Topology, request: Request, *cpus: int) -> list[tuple[int, tuple[int, ...]]]:
    plan = place_as_many(topology, AllowedResources(cpus or topology.cpus), request)
    return [(worker.threads, worker.numa_nodes) for worker in plan.workers]


def test_clusters_are_filled_and_none_is_crossed(knights_landing: Topology) -> None:
    sizes = _sizes(knights_landing, Request(cores_per_worker=4))
    assert sizes == [(4, (node,)) for node in (0, 1, 2, 3) for _ in range(4)]


def test_size_counts_the_helpers(xeon_max: Topology) -> None:
    request = Request(cores_per_worker=13, reserve=Reserve(communication_cores=1))
    assert _sizes(xeon_max, request) == [(12, (node,)) for node in (0, 1) for _ in range(4)]


def test_worker_larger_than_a_node_spans(knights_landing: Topology) -> None:
    sizes = _sizes(knights_landing, Request(cores_per_worker=34))
    assert sizes == [(34, (0, 1)), (34, (1, 2, 3))]


def test_only_allowed_cores_are_filled(xeon_max: Topology) -> None:
    assert _sizes(xeon_max, Request(cores_per_worker=4), *range(10)) == [(4, (0,)), (4, (0,))]


def test_size_is_asked_for(xeon_max: Topology) -> None:
    with pytest.raises(PlacementError, match=r"of how many cores\? give --cores-per-worker 4"):
        place_as_many(xeon_max, AllowedResources(xeon_max.cpus), Request())


def test_too_large_a_size_is_refused(small_vm: Topology) -> None:
    with pytest.raises(PlacementError, match="of 3 cores asked for"):
        place_as_many(small_vm, AllowedResources(small_vm.cpus), Request(cores_per_worker=3))
