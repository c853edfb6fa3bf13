"""What a topology works out of its facts."""

from __future__ import annotations

import pytest

from affinity.topology import Cache, Core, NumaNode, Topology


def node(node_id: int, cpus: tuple[int, ...], near: tuple[int, ...]) -> NumaNode:
    kind = "dram" if cpus else "hbm"
    return NumaNode(node_id, cpus, 2**30, 2**30, kind, "said so", near)


@pytest.fixture
def phi() -> Topology:
    """Two tiles of two cores with two threads each, a cluster each, MCDRAM out of id order."""
    cores = tuple(Core(i, 0, i // 2, (i, i + 4)) for i in range(4))
    tiles = [tuple(cpu for core in cores[i : i + 2] for cpu in core.cpus) for i in (0, 2)]
    nodes = (
        node(0, (0, 1, 4, 5), (0,)),
        node(1, (2, 3, 6, 7), (1,)),
        node(4, (), (1,)),
        node(9, (), (0,)),
    )
    caches = (
        *(Cache(2, "unified", 2**20, 64, cpus) for cpus in tiles),
        Cache(2, "instruction", 2**15, 64, tuple(range(8))),
    )
    return Topology("Phi", "GenuineIntel", (), cores, nodes, (), caches)


def test_cpus_are_those_of_all_cores_in_order(phi: Topology) -> None:
    assert phi.cpus == tuple(range(8))


def test_tiles_are_the_cores_on_one_l2_whatever_instruction_caches_say(phi: Topology) -> None:
    assert [[core.id for core in tile] for tile in phi.tiles] == [[0, 1], [2, 3]]


def test_without_an_l3_each_core_is_a_group_of_its_own(phi: Topology) -> None:
    assert [len(group) for group in phi.l3_groups] == [1, 1, 1, 1]


def test_memory_near_cores_is_found_by_nearness_not_by_number(phi: Topology) -> None:
    assert [near.id for near in phi.memory_near([0])] == [0, 9]
    assert [near.id for near in phi.memory_near([1])] == [1, 4]


def test_nodes_are_found_by_id_with_holes(phi: Topology) -> None:
    assert phi.node(9).near == (0,)
    with pytest.raises(KeyError):
        phi.node(2)
