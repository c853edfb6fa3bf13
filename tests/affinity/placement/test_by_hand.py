from __future__ import annotations

from collections.abc import Sequence

import pytest

from affinity.errors import PlacementError
from affinity.placement.by_hand import cores_by_hand, notes_by_hand
from affinity.process.allowed import AllowedResources
from affinity.topology import Core, Topology


def _cores(
    topology: Topology, cpus: Sequence[tuple[int, ...]], kept: Sequence[int] = ()
) -> list[tuple[Core, ...]]:
    return cores_by_hand(topology, AllowedResources(topology.cpus), frozenset(kept), cpus)


def test_each_rank_gets_the_cores_of_its_cpus(xeon_max: Topology) -> None:
    first, second = _cores(xeon_max, [(105, 0, 104, 1), (52,)])
    assert [core.cpus for core in first] == [(0, 104), (1, 105)]
    assert [(core.cpus, core.package) for core in second] == [((52,), 1)]


@pytest.mark.parametrize(
    ("cpus", "message"),
    [
        ([(0,), ()], "worker 1 is given no cpus"),
        ([(0, 1), (1, 2)], "cpu 1 is given to worker 0 and to worker 1"),
        ([(0, 400)], r"worker 0 \(0,400\) include 400.*only 0-207 online"),
        ([(0, 9)], "include 9, kept for the system"),
    ],
)
def test_cpus_that_cannot_be_had_are_named(
    xeon_max: Topology, cpus: list[tuple[int, ...]], message: str
) -> None:
    with pytest.raises(PlacementError, match=message):
        _cores(xeon_max, cpus, kept=[9, 113])


def test_cpus_outside_the_cpuset_are_named_with_who_set_it(xeon_max: Topology) -> None:
    allowed = AllowedResources((0, 1), said_by=("cgroup /job",))
    with pytest.raises(PlacementError, match=r"include 2, but only 0-1 are allowed \(cgroup /job"):
        cores_by_hand(xeon_max, allowed, frozenset(), [(0, 2)])


def test_cut_cores_are_noted(xeon_max: Topology) -> None:
    whole = _cores(xeon_max, [(0, 104), (1, 105)])
    assert notes_by_hand(xeon_max, xeon_max.cores, whole) == []
    cut = _cores(xeon_max, [(0,), (104, 1, 105)])
    (note,) = notes_by_hand(xeon_max, xeon_max.cores, cut)
    assert note.startswith("cpus by hand cut 1 physical core (the hardware threads 0,104):")


def test_shared_tiles_are_noted(phi: Topology) -> None:
    groups = _cores(phi, [phi.cores[0].cpus, phi.cores[1].cpus, phi.cores[2].cpus])
    (note,) = notes_by_hand(phi, phi.cores, groups)
    assert note == "cpus by hand let workers share 1 tile (cores on one L2 cache)"
