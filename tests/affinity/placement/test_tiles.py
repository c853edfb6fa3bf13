from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from affinity.placement.place import physical_cores
from affinity.placement.tiles import has_cache, narrowed, single, tiles_of, uncut
from affinity.topology import Cache, Core, NumaNode, Topology

Machine = Callable[..., Topology]


def _ids(topology: Topology) -> list[list[int]]:
    tiles = tiles_of(topology, topology.cores)
    return [[core.cpus[0] for core in tile.cores] for tile in tiles]


def test_cores_that_share_an_l2_are_a_tile(phi: Topology) -> None:
    tiles = tiles_of(phi, phi.cores)
    assert len(tiles) == 34
    assert [core.cpus for core in tiles[1].cores] == [(2, 70, 138, 206), (3, 71, 139, 207)]
    assert (tiles[9].numa_node, tiles[9].package) == (1, 0)


def test_without_caches_each_core_is_a_tile(machine: Machine) -> None:
    assert _ids(machine(nodes=(3,))) == [[0], [1], [2]]


def test_l2_of_a_whole_package_is_not_a_tile(machine: Machine) -> None:
    assert _ids(machine(nodes=(4,), tile=4)) == [[0], [1], [2], [3]]
    assert _ids(machine(nodes=(4, 4), tile=2, packages=2)) == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_l2_of_a_dozen_cores_is_not_a_tile(machine: Machine) -> None:
    cores = _ids(machine(nodes=(12, 12, 12, 12), tile=12))
    assert len(cores) == 48


def test_partly_allowed_tile_counts_with_its_allowed_cores(phi: Topology) -> None:
    tiles = tiles_of(phi, physical_cores(phi, [0, 3, 71, 204]))
    assert [[core.cpus for core in tile.cores] for tile in tiles] == [[(0, 204)], [(3, 71)]]


def test_tiles_of_one_l3_follow_one_another_whatever_their_numbers() -> None:
    cores = tuple(Core(cpu, 0, 0, (cpu,)) for cpu in range(6))
    caches = tuple(Cache(3, "unified", 1, 64, (first, first + 2, first + 4)) for first in (0, 1))
    topology = Topology(
        "", "", (), cores, (NumaNode(0, tuple(range(6)), 1, 1, "dram", ""),), (), caches=caches
    )
    assert _ids(topology) == [[0], [2], [4], [1], [3], [5]]


def test_uncut_groups_cover_every_core_once(phi: Topology) -> None:
    cores = [core for group in uncut(phi) for core in group]
    assert sorted(cores, key=lambda core: core.cpus) == list(phi.cores)


def test_narrowed_cores_keep_only_the_given_cpus(phi: Topology) -> None:
    assert [core.cpus for core in narrowed(phi.cores, {1, 69, 5})] == [(1, 69), (5,)]


def test_single_tile_sits_where_its_core_sits(phi: Topology) -> None:
    tile = single(phi.cores[20])
    assert (tile.cores, tile.numa_node) == ((phi.cores[20],), 1)


def test_instruction_caches_do_not_count(machine: Machine) -> None:
    topology = machine(nodes=(4,), l3=4)
    assert has_cache(topology, 3)
    instruction = tuple(replace(cache, kind="instruction") for cache in topology.caches)
    assert not has_cache(replace(topology, caches=instruction), 3)
