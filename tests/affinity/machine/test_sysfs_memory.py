from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from affinity.errors import TopologyError
from affinity.machine.description import Description, NodeFacts
from affinity.machine.files import FolderFiles
from affinity.machine.inference import conclude
from affinity.machine.sysfs import describe_sysfs
from affinity.topology import HugePages, SideCache

Machines = Callable[[str], Any]
Write = Callable[..., Any]
NODE = "sys/devices/system/node"
GIB = 2**30


def _describe(machine: Any) -> Description:
    return describe_sysfs(FolderFiles(machine.root))


@pytest.fixture
def flat_mode(machine_files: Machines) -> Any:
    """Two sockets, each with a memory of 100 GB/s beside its cpus and another without cpus."""
    machine = machine_files("two_sockets")
    for node in range(2):
        machine.add_node(2 + node, "", 256)
        machine.add_bandwidth(node, "access0", node, 100_000)
    return machine


def _node(machine: Any, node: int) -> NodeFacts:
    return _describe(machine).nodes[node]


def test_nodes_have_their_cpus_and_their_memory_in_bytes(machine_files: Machines) -> None:
    nodes = _describe(machine_files("knights_landing")).nodes
    assert list(nodes) == list(range(8))
    assert nodes[1].cpus == (2, 3, 10, 11, 18, 19, 26, 27)
    assert nodes[4].cpus == ()
    assert (nodes[4].memory_bytes, nodes[4].free_bytes) == (4 * GIB, GIB)


def test_node_ids_may_have_holes_and_exceed_nine(write_machine: Write, tmp_path: Path) -> None:
    machine = write_machine(
        tmp_path, clusters=(2, 2), nodes=(0, 12), memories={3: 16_384, 250: 16_384}, slit="knl"
    )
    description = _describe(machine)
    assert list(description.nodes) == [0, 3, 12, 250]
    assert description.nodes[12].cpus == (2, 3)
    row = {to: value for (node, to), value in description.distances.items() if node == 250}
    assert row == {0: 41, 3: 41, 12: 31, 250: 10}


def test_distances_are_read_by_the_list_of_online_nodes(machine_files: Machines) -> None:
    machine = machine_files("two_sockets")
    machine.write(f"{NODE}/online", "0-2")  # the folder of node 2 is hidden
    machine.write(f"{NODE}/node0/distance", "10 21 17")
    machine.write(f"{NODE}/node1/distance", "21 10 28")
    assert _describe(machine).distances == {(0, 0): 10, (0, 1): 21, (1, 0): 21, (1, 1): 10}


def test_distances_that_do_not_fit_are_left_out_and_noted(machine_files: Machines) -> None:
    machine = machine_files("two_sockets")
    machine.write(f"{NODE}/node0/distance", "10 21")
    machine.write(f"{NODE}/node1/distance", "10")
    description = _describe(machine)
    assert description.distances == {(0, 0): 10, (0, 1): 21}
    assert f"distances: /{NODE}/node*/distance, but none that fits for nodes 1" in (
        description.sources
    )


def test_missing_distances_between_several_nodes_are_noted(machine_files: Machines) -> None:
    description = _describe(machine_files("two_sockets"))
    assert description.distances == {}
    assert description.notes == [
        f"no distances between the nodes: /{NODE}/node*/distance, but none that fits for nodes 0-1"
    ]


def test_node_that_does_not_tell_its_cpus_is_an_error(machine_files: Machines) -> None:
    machine = machine_files("two_sockets")
    machine.remove(f"{NODE}/node1/cpulist")
    with pytest.raises(TopologyError, match="node1 has neither a cpulist nor a cpumap"):
        _describe(machine)


def test_node_that_does_not_list_its_cpus_may_link_to_them(machine_files: Machines) -> None:
    machine = machine_files("two_sockets")
    before = _describe(machine).nodes[1].cpus
    machine.remove(f"{NODE}/node1/cpulist")
    for cpu in before:
        machine.link(f"{NODE}/node1/cpu{cpu}", f"sys/devices/system/cpu/cpu{cpu}")
    assert _describe(machine).nodes[1].cpus == before


def test_folder_of_a_node_that_is_not_online_is_left_out(machine_files: Machines) -> None:
    machine = machine_files("two_sockets")
    machine.write(f"{NODE}/online", "0-1")
    machine.write(f"{NODE}/node7/meminfo", "")
    description = _describe(machine)
    assert list(description.nodes) == [0, 1]
    assert "NUMA node 7 is not online: left out" in description.notes


def test_node_without_memory_is_a_node(write_machine: Write, tmp_path: Path) -> None:
    machine = write_machine(tmp_path, clusters=(2, 2), megabytes=(1024, 0), slit="flat")
    description = _describe(machine)
    assert description.nodes[1].memory_bytes == 0
    assert description.notes == []


def test_memory_whose_size_is_hidden_is_noted(write_machine: Write, tmp_path: Path) -> None:
    machine = write_machine(tmp_path, clusters=(2, 2), slit="flat")
    machine.remove(f"{NODE}/node1/meminfo")
    description = _describe(machine)
    assert (description.nodes[1].memory_bytes, description.nodes[1].size_told) == (0, False)
    assert (description.nodes[0].size_told, conclude(description).node(1).size_told) == (
        True,
        False,
    )
    note = "no size of the memory of node 1: meminfo is missing or cannot be read"
    assert description.notes == [note]
    machine.write(f"{NODE}/node1/meminfo", "Node 1 MemFree: 7 kB")
    assert _describe(machine).notes == [note]
    machine.write(f"{NODE}/node1/meminfo", "Node 1 MemTotal: 0 kB")
    assert _describe(machine).nodes[1].size_told is True


def test_mcdram_whose_size_is_hidden_is_mcdram_all_the_same(machine_files: Machines) -> None:
    machine = machine_files("knights_landing")
    machine.remove(f"{NODE}/node5/meminfo")
    topology = conclude(_describe(machine))
    assert topology.node(5).kind == "hbm"
    assert topology.node(5).evidence.endswith("is Knights Landing (its size is not told)")
    assert topology.modes is not None
    assert topology.modes.memory == "flat"
    assert topology.modes.memory_evidence == (
        "the size of MCDRAM at node 5 is not told: hybrid cannot be ruled out"
    )


def test_memory_counts_as_free_where_nothing_tells_how_much_is(
    write_machine: Write, tmp_path: Path
) -> None:
    machine = write_machine(tmp_path, memories={1: 512})
    machine.write(f"{NODE}/node1/meminfo", "Node 1 MemTotal: 2048 kB\nNode 1 Active(file): 9 kB")
    description = _describe(machine)
    facts = description.nodes[1]
    assert (facts.memory_bytes, facts.free_bytes, facts.reclaimable_bytes) == (2 << 20, 2 << 20, 0)
    note = f"/{NODE}/node1/meminfo does not tell what is free: all of it counts as free"
    assert note in description.notes


def test_clean_pages_of_files_are_told_apart_from_free_memory(
    write_machine: Write, tmp_path: Path
) -> None:
    machine = write_machine(tmp_path)
    lines = "Node 0 MemTotal: 90 kB\nNode 0 MemFree: 20 kB\nNode 0 Inactive(file): 30 kB"
    machine.write(f"{NODE}/node0/meminfo", lines)
    node = conclude(_describe(machine)).node(0)
    assert (node.free_bytes, node.reclaimable_bytes) == (20 << 10, 30 << 10)


def test_node_whose_cpus_are_all_offline_is_told_from_one_without_cpus(
    write_machine: Write, tmp_path: Path
) -> None:
    machine = write_machine(tmp_path, clusters=(2, 2), memories={2: 4096}, offline=(2, 3))
    for cpu in range(4):
        machine.link(f"{NODE}/node{cpu // 2}/cpu{cpu}", f"sys/devices/system/cpu/cpu{cpu}")
    nodes = _describe(machine).nodes
    assert (nodes[1].cpus, nodes[1].offline_cpus) == ((), (2, 3))
    assert (nodes[0].cpus, nodes[0].offline_cpus) == ((0, 1), ())
    assert (nodes[2].cpus, nodes[2].offline_cpus) == ((), ())


def test_old_masks_that_still_have_offline_cpus_are_corrected(
    write_machine: Write, tmp_path: Path
) -> None:
    machine = write_machine(tmp_path, clusters=(4,), offline=(3,))
    machine.write(f"{NODE}/node0/cpulist", "0-3")
    node = _node(machine, 0)
    assert (node.cpus, node.offline_cpus) == ((0, 1, 2), (3,))


def test_bandwidth_latency_and_initiator_come_from_the_firmware(flat_mode: Any) -> None:
    flat_mode.add_bandwidth(3, "access0", 1, 270_000, latency=130)
    node = _node(flat_mode, 3)
    assert (node.read_bandwidth, node.write_bandwidth, node.read_latency) == (
        270_000,
        270_000,
        130,
    )
    assert node.initiators == (1,)
    path = f"HMAT table, in /{NODE}/node3/access0/initiators"
    assert (node.performance_source, node.initiators_source) == (path, path)
    assert node.zero_performance is False


def test_bandwidth_from_cpus_beats_that_from_devices(flat_mode: Any) -> None:
    flat_mode.add_bandwidth(2, "access0", 0, 50_000)
    flat_mode.add_bandwidth(2, "access1", 0, 500_000)
    assert _node(flat_mode, 2).read_bandwidth == 500_000


def test_bandwidth_of_writing_counts_where_that_of_reading_is_zero(flat_mode: Any) -> None:
    flat_mode.add_bandwidth(2, "access0", 0, 360_000)
    for node in (0, 2):
        flat_mode.write(f"{NODE}/node{node}/access0/initiators/read_bandwidth", "0")
    node = _node(flat_mode, 2)
    assert (node.read_bandwidth, node.write_bandwidth) == (None, 360_000)
    assert (node.zero_performance, node.performance_source) == (
        False,
        f"HMAT table, in /{NODE}/node2/access0/initiators",
    )
    hbm = conclude(_describe(flat_mode)).node(2)
    assert (hbm.kind, hbm.bandwidth_mb_per_second) == ("hbm", 360_000)


def test_generic_initiators_do_not_count(flat_mode: Any) -> None:
    flat_mode.add_node(4, "", 0)
    flat_mode.add_bandwidth(3, "access0", 4, 900_000)
    node = _node(flat_mode, 3)
    assert (node.read_bandwidth, node.initiators, node.zero_performance) == (None, (), False)
    flat_mode.add_bandwidth(3, "access1", 1, 270_000)
    node = _node(flat_mode, 3)
    assert (node.read_bandwidth, node.initiators) == (270_000, (1,))


def test_zeros_mean_that_nothing_is_given(flat_mode: Any) -> None:
    flat_mode.add_bandwidth(2, "access0", 0, 0, latency=0)
    node = _node(flat_mode, 2)
    assert (node.read_bandwidth, node.write_bandwidth, node.read_latency) == (None, None, None)
    assert node.zero_performance is True
    assert node.performance_source == ""
    assert node.initiators == (0,)  # the links may be right all the same


def test_zeros_of_one_class_do_not_hide_the_other(flat_mode: Any) -> None:
    flat_mode.add_bandwidth(2, "access1", 0, 0)
    flat_mode.add_bandwidth(2, "access0", 0, 300_000)
    node = _node(flat_mode, 2)
    assert (node.read_bandwidth, node.zero_performance) == (300_000, False)


def test_machine_without_hmat_gives_no_figures(machine_files: Machines) -> None:
    node = _node(machine_files("two_sockets"), 0)
    assert (node.read_bandwidth, node.zero_performance, node.initiators) == (None, False, ())


def test_tiers_of_the_kernel_are_read(write_machine: Write, tmp_path: Path) -> None:
    machine = write_machine(tmp_path, clusters=(2, 2), memories={2: 64}, tiers={1: [2], 4: [0, 9]})
    description = _describe(machine)
    assert [node.tier for node in description.nodes.values()] == [4, None, 1]
    assert "memory tiers: /sys/devices/virtual/memory_tiering" in description.sources


def test_side_cache_is_read_with_its_indexing(write_machine: Write, tmp_path: Path) -> None:
    machine = write_machine(tmp_path, side_cache={0: 64 * GIB})
    path = f"{NODE}/node0/memory_side_cache/index1"
    evidence = f"firmware's HMAT table, in /{path}"
    assert _node(machine, 0).side_caches == (SideCache(64 * GIB, 64, "direct", evidence),)
    machine.write(f"{path}/indexing", "1")
    assert _node(machine, 0).side_caches[0].associativity == "indexed"
    machine.remove(f"{path}/indexing")
    assert _node(machine, 0).side_caches[0].associativity == "unknown"
    machine.write(f"{path}/size", "0")
    assert _node(machine, 0).side_caches == ()


def test_pools_of_huge_pages_are_read_by_size(write_machine: Write, tmp_path: Path) -> None:
    machine = write_machine(tmp_path, huge_pages={0: {2048: (8, 5), 1_048_576: (1, 0)}})
    assert _node(machine, 0).huge_pages == (HugePages(2 * 2**20, 8, 5), HugePages(GIB, 1, 0))


def test_pools_of_a_machine_without_nodes_are_those_of_the_whole(machine_files: Machines) -> None:
    machine = machine_files("small_vm")
    for file in sorted((machine.root / NODE).rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    machine.write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "4")
    machine.write("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "3")
    assert _node(machine, 0).huge_pages == (HugePages(2 * 2**20, 4, 3),)
