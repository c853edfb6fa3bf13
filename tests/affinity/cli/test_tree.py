from __future__ import annotations

from dataclasses import replace

from affinity.cli.homes import homes
from affinity.cli.picture.blocks import Words
from affinity.cli.picture.memory import memory_block
from affinity.cli.tree import count_cores, machine_tree
from affinity.topology import Cache, Gpu, HugePages, Topology


def test_each_cluster_stands_with_its_own_mcdram(knights_landing: Topology) -> None:
    assert machine_tree(knights_landing).splitlines()[:7] == [
        "package 0",
        "├─ node 0  18 cores in 9 tiles  cpus 0-17,68-85,136-153,204-221",
        "│  ├─ DRAM    node 0  24.0 GiB  23.0 GiB free",
        "│  └─ MCDRAM  node 7   4.0 GiB   4.0 GiB free  90 GB/s",
        "├─ node 1  18 cores in 9 tiles  cpus 18-35,86-103,154-171,222-239",
        "│  ├─ DRAM    node 1  24.0 GiB  23.0 GiB free",
        "│  └─ MCDRAM  node 4   4.0 GiB   4.0 GiB free  90 GB/s",
    ]


def test_speed_is_shown_where_it_is_known(xeon_max: Topology) -> None:
    lines = machine_tree(xeon_max).splitlines()
    assert lines[3] == "   └─ HBM   node 2   64.0 GiB   63.0 GiB free  700 GB/s  130 ns"
    assert lines[4:6] == ["package 1", "└─ node 1  52 cores  cpus 52-103,156-207"]


def test_side_cache_and_huge_pages_stand_behind_their_memory(cache_mode: Topology) -> None:
    assert machine_tree(cache_mode).endswith(
        "200.0 GiB free  behind a memory-side cache of 64.0 GiB (direct-mapped)"
    )
    (node,) = cache_mode.numa_nodes
    pages = (HugePages(2 << 20, 8, 5), HugePages(1 << 30, 0, 0))
    node = replace(node, side_caches=(), huge_pages=pages)
    tree = machine_tree(replace(cache_mode, numa_nodes=(node,)))
    assert tree.endswith("200.0 GiB free  8 huge pages of 2.0 MiB (5 free)")


def test_memory_of_a_size_that_nothing_tells_is_shown(xeon_max: Topology) -> None:
    *others, last = xeon_max.numa_nodes
    untold = replace(last, memory_bytes=0, free_bytes=0, size_told=False)
    machine = replace(xeon_max, numa_nodes=(*others, untold))
    assert "└─ HBM   node 3  size not told" in machine_tree(machine)
    block = memory_block(machine, untold, None, 100.0)
    assert any("size not told" in shape.text for shape in block.shapes if isinstance(shape, Words))


def test_memory_near_several_nodes_stands_apart(xeon_max: Topology) -> None:
    dram0, dram1, hbm2, hbm3 = xeon_max.numa_nodes
    nodes = (dram0, dram1, replace(hbm2, near=(0, 1)), replace(hbm3, near=(), kind="gpu"))
    lines = machine_tree(replace(xeon_max, numa_nodes=nodes)).splitlines()
    assert lines[-3] == "not of one node alone"
    assert lines[-2].startswith("├─ HBM ")
    assert lines[-2].endswith("130 ns  near nodes 0-1")
    assert lines[-1].startswith("└─ GPU ")
    assert lines[-1].endswith("near no cores")


def test_cores_are_counted_by_what_they_share(xeon_max: Topology, small_vm: Topology) -> None:
    assert count_cores(xeon_max, homes(xeon_max)[0]) == "52 cores"
    l2 = Cache(2, "unified", 2**20, 64, (0, 1))
    shared = replace(small_vm, caches=(l2,))
    assert count_cores(shared, homes(shared)[0]) == "2 cores in 1 tile"


def test_several_l3_groups_of_a_node_are_counted(xeon_max: Topology) -> None:
    groups = tuple(
        Cache(3, "unified", 2**25, 64, tuple(range(first, first + 4))) for first in (0, 4)
    )
    cores = xeon_max.cores[:8]
    machine = replace(xeon_max, cores=cores, caches=groups)
    assert count_cores(machine, homes(machine)[0]) == "8 cores in 2 L3 groups"


def test_gpus_stand_behind_the_memories_of_their_node(xeon_max: Topology) -> None:
    first = Gpu("0000:3b:00.0", "NVIDIA", "A100", "GPU-1", 0, (0,), "", 31.5)
    second = replace(first, address="0000:d8:00.0", numa_node=None, link_gb_per_second=None)
    lines = machine_tree(replace(xeon_max, gpus=(first, second))).splitlines()
    assert lines[3].startswith("   ├─ HBM ")
    assert lines[4] == "   └─ GPU 0000:3b:00.0  A100  link 31.5 GB/s"
    assert lines[-2:] == ["not of one node alone", "└─ GPU 0000:d8:00.0     A100"]
