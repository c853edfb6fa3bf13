from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from affinity.cpulist import parse_cpulist
from affinity.machine.description import Description, NodeFacts, Processor
from affinity.machine.numactl_cores import CoreWords, place_threads, tiles_of_knights

Describe = Callable[..., Description]


def _machine(cpus: Mapping[int, str], near: int | None = None, far: int = 21) -> Description:
    """Nodes with these cpus; neighbours in pairs are `near` to each other, all else is `far`."""
    nodes = {node: NodeFacts(node, parse_cpulist(listed), 1 << 30) for node, listed in cpus.items()}
    description = Description(nodes=nodes)
    if near is not None:
        description.distances = {
            (a, b): 10 if a == b else near if a // 2 == b // 2 else far
            for a in nodes
            for b in nodes
        }
    return description


def _cores(description: Description, words: CoreWords | None = None) -> list[tuple[int, ...]]:
    places = place_threads(description, words or CoreWords())
    cores: dict[tuple[int, int], list[int]] = {}
    for cpu, place in sorted(places.items()):
        cores.setdefault((place.package, place.core), []).append(cpu)
    return sorted(map(tuple, cores.values()))


def _packages(description: Description, words: CoreWords | None = None) -> list[int]:
    places = place_threads(description, words or CoreWords())
    return [places[min(facts.cpus)].package for facts in description.nodes.values()]


def test_numbers_that_repeat_in_every_node_tell_the_threads_of_a_core() -> None:
    description = _machine({0: "0-1,4-5", 1: "2-3,6-7"}, near=21)
    assert _cores(description) == [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert any("2 threads per core: concluded from the numbers" in n for n in description.notes)


def test_uneven_clusters_of_four_threads_are_understood() -> None:
    runs = {0: (0, 18), 1: (18, 36), 2: (36, 52), 3: (52, 68)}
    cpus = {
        node: ",".join(f"{68 * t + a}-{68 * t + b - 1}" for t in range(4))
        for node, (a, b) in runs.items()
    }
    cores = _cores(_machine(cpus))
    assert len(cores) == 68
    assert cores[20] == (20, 88, 156, 224)


@pytest.mark.parametrize(
    "cpus",
    [
        {0: "0-7"},
        {0: "0,2,4,6", 1: "1,3,5,7"},
        {0: "0,2", 1: "1,3"},
        {0: "0-1,6-7,12-13", 1: "2-3,8-9,14-15", 2: "4-5,10-11,16-17"},
        {0: "0-1,4-5", 1: "2-3"},
        {0: "0-1,4-6", 1: "2-3,7"},
        {0: "0-1,6-7", 1: "2-3,4-5"},
    ],
)
def test_other_numbers_make_each_cpu_a_core_and_say_so(cpus: dict[int, str]) -> None:
    description = _machine(cpus)
    cores = _cores(description)
    assert all(len(core) == 1 for core in cores)
    assert any("each counts as a core" in note for note in description.notes)


def test_told_threads_per_core_are_numbered_as_linux_does() -> None:
    words = CoreWords("lscpu", threads_per_core=2)
    assert _cores(_machine({0: "0-7"}), words) == [(0, 4), (1, 5), (2, 6), (3, 7)]


def test_threads_of_a_core_may_be_neighbours() -> None:
    words = CoreWords("lscpu", threads_per_core=2, adjacent=True)
    assert _cores(_machine({0: "0-7"}), words)[0] == (0, 1)


def test_no_core_reaches_over_two_nodes() -> None:
    # Node 0 has the first half of the cpus: their siblings cannot be in the second.
    words = CoreWords("lscpu", threads_per_core=2)
    assert _cores(_machine({0: "0-3", 1: "4-7"}), words)[:2] == [(0, 1), (2, 3)]


def test_told_single_threads_leave_no_doubt() -> None:
    description = _machine({0: "0-1,4-5", 1: "2-3,6-7"}, near=21)
    assert len(_cores(description, CoreWords("lscpu", threads_per_core=1, packages=2))) == 8
    assert description.notes == []


def test_threads_that_do_not_fit_are_said() -> None:
    description = _machine({0: "0-6"})
    assert len(_cores(description, CoreWords("lscpu", threads_per_core=2))) == 7
    assert any("do not fit the cpus" in note for note in description.notes)


def test_xeon_phi_has_no_more_than_72_cores(describe: Describe) -> None:
    rows = [[10, 31], [31, 10]]
    description = describe({0: 96}, {1: 16}, rows=rows, processor="", cores=272)
    cores = _cores(description)
    assert len(cores) == 68
    assert cores[0] == (0, 68, 136, 204)
    assert any("no Xeon Phi has over 72 cores" in note for note in description.notes)


def test_nodes_closer_than_20_are_one_package() -> None:
    description = _machine({0: "0", 1: "1", 2: "2", 3: "3"}, near=12)
    assert _packages(description) == [0, 0, 1, 1]
    assert any("2 packages: concluded from distances" in note for note in description.notes)


def test_told_number_of_packages_counts_before_that_rule() -> None:
    cpus = {0: "0", 1: "1", 2: "2", 3: "3"}
    near_pairs = _machine(cpus, near=21, far=31)
    assert _packages(near_pairs) == [0, 1, 2, 3]
    assert _packages(near_pairs, CoreWords("lscpu", 1, packages=2)) == [0, 0, 1, 1]
    assert _packages(near_pairs, CoreWords("lscpu", 1, packages=1)) == [0, 0, 0, 0]
    assert _packages(near_pairs, CoreWords("lscpu", 1, packages=4)) == [0, 1, 2, 3]


def test_xeon_phi_is_one_package_although_its_clusters_are_far(describe: Describe) -> None:
    rows = [[10, 21, 31, 41], [21, 10, 41, 31], [31, 41, 10, 41], [41, 31, 41, 10]]
    description = describe({0: 48, 1: 48}, {2: 8, 3: 8}, rows=rows, processor="")
    places = place_threads(description, CoreWords())
    assert {place.package for place in places.values()} == {0}


def test_packages_that_nothing_tells_are_one_and_said() -> None:
    description = _machine({0: "0", 1: "1"})
    assert _packages(description) == [0, 0]
    assert any("nothing tells the packages" in note for note in description.notes)


def test_packages_without_distances_follow_the_numbers_of_the_cpus() -> None:
    description = _machine({0: "2", 1: "0", 2: "3", 3: "1"})
    words = CoreWords("a comment", threads_per_core=1, cores_per_package=2)
    assert _packages(description, words) == [1, 0, 1, 0]
    assert any("2 packages: a comment tells" in note for note in description.notes)


def _tiles(cpus: Mapping[int, str], processor: Processor) -> list[tuple[int, ...]]:
    description = _machine(cpus)
    description.processor = processor
    description.threads = place_threads(description, CoreWords("lscpu", threads_per_core=2))
    return [cache.cpus for cache in tiles_of_knights(description)]


def test_neighbouring_cores_of_a_xeon_phi_are_a_tile() -> None:
    phi, xeon = Processor("GenuineIntel", 6, 87), Processor("GenuineIntel", 6, 85)
    assert _tiles({0: "0-3,4-7"}, phi) == [(0, 1, 4, 5), (2, 3, 6, 7)]
    assert _tiles({0: "0-3,4-7"}, xeon) == []
    # An odd number of cores, and tiles that two nodes would share, are no whole Xeon Phi.
    assert _tiles({0: "0-2,3-5"}, phi) == []
    assert _tiles({0: "0,4", 1: "1-3,5-7"}, phi) == []
