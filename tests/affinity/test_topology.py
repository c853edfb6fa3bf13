from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from affinity.errors import TopologyError
from affinity.placement import physical_cores
from affinity.topology import read_topology

Machines = Callable[[str], Any]


def test_knights_landing_has_four_threads_per_core_and_memory_without_cpus(
    machine_files: Machines,
) -> None:
    topology = read_topology(machine_files("knights_landing").root)
    assert topology.model == "Intel(R) Xeon Phi(TM) CPU 7250 @ 1.40GHz"
    assert topology.vendor == "GenuineIntel"
    assert topology.isa == ("avx", "avx2", "fma", "avx512f", "avx512er")
    assert [core.cpus for core in topology.cores[:2]] == [(0, 8, 16, 24), (1, 9, 17, 25)]
    assert [core.numa_node for core in topology.cores] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [node.cpus for node in topology.numa_nodes[4:]] == [(), (), (), ()]
    assert topology.numa_nodes[4].memory_bytes == 4 * 2**30
    assert topology.numa_nodes[4].free_bytes == 2**30
    assert topology.cpus == tuple(range(32))


def test_cores_of_two_sockets_with_equal_ids_stay_apart(machine_files: Machines) -> None:
    topology = read_topology(machine_files("two_sockets").root)
    assert [(core.package, core.id, core.cpus) for core in topology.cores] == [
        (0, 0, (0, 6)),
        (0, 1, (1, 7)),
        (0, 2, (2, 8)),
        (1, 0, (3, 9)),
        (1, 1, (4, 10)),
        (1, 2, (5, 11)),
    ]


def test_cores_of_one_socket_follow_one_another_when_numbers_alternate(
    machine_files: Machines,
) -> None:
    machine = machine_files("small_vm")
    for cpu in range(4):
        machine.add_core(cpu % 2, cpu // 2, [cpu])
    machine.add_node(0, "0,2", 512)
    machine.add_node(1, "1,3", 512)
    cores = read_topology(machine.root).cores
    assert [(core.numa_node, core.cpus) for core in cores] == [
        (0, (0,)),
        (0, (2,)),
        (1, (1,)),
        (1, (3,)),
    ]


def test_cores_of_two_dies_with_equal_ids_stay_apart(machine_files: Machines) -> None:
    machine = machine_files("small_vm")
    machine.write("sys/devices/system/cpu/cpu1/topology/core_id", "0")
    assert [core.cpus for core in read_topology(machine.root).cores] == [(0,), (1,)]


def test_small_vm_is_one_node_of_dram(machine_files: Machines) -> None:
    topology = read_topology(machine_files("small_vm").root)
    assert topology.model == "unknown"
    assert [(node.cpus, node.kind) for node in topology.numa_nodes] == [((0, 1), "dram")]
    assert topology.sources == (
        "cores: /sys/devices/system/cpu",
        "memory: /sys/devices/system/node",
    )


def test_offline_cpus_belong_to_no_core(machine_files: Machines) -> None:
    machine = machine_files("two_sockets")
    machine.write("sys/devices/system/cpu/online", "0-10")
    shutil.rmtree(machine.root / "sys/devices/system/cpu/cpu11/topology")
    assert read_topology(machine.root).cpus == tuple(range(11))


def test_cpu_that_runs_but_is_not_listed_as_online_keeps_its_core(machine_files: Machines) -> None:
    machine = machine_files("two_sockets")
    machine.write("sys/devices/system/cpu/online", "0-1")
    topology = read_topology(machine.root)
    assert [core.cpus for core in topology.cores][-1] == (5, 11)
    assert topology.cpus == tuple(range(12))
    assert "some of whose cpus are not listed as online" in topology.sources[0]


def test_allowed_cpu_that_no_file_shows_is_a_core_of_its_own(machine_files: Machines) -> None:
    topology = read_topology(machine_files("small_vm").root, allowed=[1, 5, 7])
    assert [core.cpus for core in topology.cores] == [(0,), (1,), (5,), (7,)]
    assert "cpus 5,7: allowed but not shown, each a core" in topology.sources[0]
    assert physical_cores(topology, [1, 5, 7]) == topology.cores[1:]


def test_without_list_of_online_cpus_the_folders_are_counted(machine_files: Machines) -> None:
    machine = machine_files("two_sockets")
    machine.remove("sys/devices/system/cpu/online")
    machine.write("sys/devices/system/cpu/cpufreq/boost", "1")
    assert len(read_topology(machine.root).cores) == 6


def test_without_sysfs_cores_come_from_cpuinfo_and_memory_is_one_node(
    machine_files: Machines,
) -> None:
    machine = machine_files("two_sockets")
    whole = read_topology(machine.root)
    shutil.rmtree(machine.root / "sys")
    machine.write("proc/meminfo", "MemTotal:  2048 kB\nMemFree: 1024 kB")
    topology = read_topology(machine.root)
    assert [core.cpus for core in topology.cores] == [core.cpus for core in whole.cores]
    (node,) = topology.numa_nodes
    assert (node.cpus, node.memory_bytes, node.free_bytes) == (tuple(range(12)), 2**21, 2**20)
    assert (node.kind, node.evidence) == (
        "unknown",
        "the kernel shows no NUMA nodes, so all memory counts as one",
    )
    assert all("as /sys/devices" in source for source in topology.sources)


def test_one_hidden_core_id_makes_all_cores_come_from_cpuinfo(machine_files: Machines) -> None:
    machine = machine_files("two_sockets")
    machine.remove("sys/devices/system/cpu/cpu4/topology/core_id")
    topology = read_topology(machine.root)
    assert len(topology.cores) == 6
    assert topology.sources[0].startswith("cores: /proc/cpuinfo")


def test_processors_without_core_ids_count_as_cores(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "proc/cpuinfo"
    cpuinfo.parent.mkdir()
    cpuinfo.write_text(
        "processor\t: 0\nFeatures\t: fp asimd sve\nCPU implementer\t: 0x46\n\nprocessor\t: 1\n",
        encoding="utf-8",
    )
    topology = read_topology(tmp_path)
    assert [core.cpus for core in topology.cores] == [(0,), (1,)]
    assert (topology.vendor, topology.isa) == ("0x46", ("asimd", "sve"))


def test_no_file_at_all_is_an_error_that_names_both_places(tmp_path: Path) -> None:
    with pytest.raises(TopologyError) as caught:
        read_topology(tmp_path)
    assert "sys/devices/system/cpu/cpu*/topology" in str(caught.value)
    assert "proc/cpuinfo" in str(caught.value)


def test_garbage_in_a_kernel_file_is_an_error_that_names_it(machine_files: Machines) -> None:
    machine = machine_files("small_vm")
    machine.write("sys/devices/system/cpu/cpu1/topology/core_id", "?")
    with pytest.raises(TopologyError, match="cpu1/topology/core_id holds '\\?'"):
        read_topology(machine.root)


def test_this_machine_has_every_allowed_cpu_once_and_some_memory() -> None:
    topology = read_topology()
    cpus = [cpu for core in topology.cores for cpu in core.cpus]
    assert len(cpus) == len(set(cpus))
    assert os.sched_getaffinity(0) <= set(cpus)
    assert sum(node.memory_bytes for node in topology.numa_nodes) > 2**28
    assert {core.numa_node for core in topology.cores} <= {node.id for node in topology.numa_nodes}
