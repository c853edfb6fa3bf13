from __future__ import annotations

from dataclasses import replace

from affinity.cli.homes import homes, shared_memories
from affinity.topology import Core, Topology


def test_memory_is_at_home_with_the_cores_that_it_is_near(knights_landing: Topology) -> None:
    found = [
        (home.node, [memory.id for memory in home.memories]) for home in homes(knights_landing)
    ]
    assert found == [(0, [0, 7]), (1, [1, 4]), (2, [2, 5]), (3, [3, 6])]
    assert [len(home.cores) for home in homes(knights_landing)] == [18, 18, 16, 16]
    assert shared_memories(knights_landing) == ()


def test_memory_near_several_nodes_or_none_is_shared(xeon_max: Topology) -> None:
    dram0, dram1, hbm2, hbm3 = xeon_max.numa_nodes
    nodes = (dram0, dram1, replace(hbm2, near=(0, 1)), replace(hbm3, near=()))
    machine = replace(xeon_max, numa_nodes=nodes)
    assert [node.id for node in shared_memories(machine)] == [2, 3]
    assert [len(home.memories) for home in homes(machine)] == [1, 1]


def test_node_of_cores_in_two_packages_has_its_memory_once(small_vm: Topology) -> None:
    cores = (Core(0, 0, 0, (0,)), Core(0, 1, 0, (1,)))
    found = homes(replace(small_vm, cores=cores))
    assert [(home.package, len(home.memories)) for home in found] == [(0, 1), (1, 0)]


def test_node_without_memory_of_its_own_has_none(small_vm: Topology) -> None:
    (node,) = small_vm.numa_nodes
    (home,) = homes(replace(small_vm, numa_nodes=(replace(node, memory_bytes=0),)))
    assert home.memories == ()
