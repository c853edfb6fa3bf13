from __future__ import annotations

from dataclasses import replace

from affinity.cli.show import machine_head, part, show_machine
from affinity.process.allowed import AllowedResources
from affinity.topology import Cache, Topology


def _section(text: str, title: str) -> list[str]:
    """The lines below a title, up to the next empty one."""
    lines = text.splitlines()
    rest = lines[lines.index(title) + 1 :]
    return rest[: rest.index("")] if "" in rest else rest


def test_head_counts_everything(knights_landing: Topology) -> None:
    assert machine_head(knights_landing).splitlines() == [
        "Intel(R) Xeon Phi(TM) CPU 7250 @ 1.40GHz",
        "1 package, 68 cores, 272 hardware threads (4 per core)",
        "memory  96.0 GiB DRAM and 16.0 GiB MCDRAM in 8 NUMA nodes",
        "caches  L2 1.0 MiB per 2 cores",
        "vectors avx512f avx512er",
    ]


def test_head_says_what_nothing_tells(small_vm: Topology) -> None:
    head = machine_head(replace(small_vm, offline_cpus=(2, 3)))
    assert head.splitlines() == [
        "processor not told",
        "1 package, 2 cores, 2 hardware threads (1 per core)",
        "memory  2.0 GiB DRAM in 1 NUMA node",
        "caches  not told",
        "vectors not told",
        "offline cpus 2-3, switched off",
    ]


def test_caches_are_put_together_by_who_shares_them(small_vm: Topology) -> None:
    caches = [
        Cache(level, kind, size, 64, cpus)
        for level, kind, size, cpus in (
            (3, "unified", 2**25, (0, 1)),
            (1, "data", 2**15, (0,)),
            (1, "data", 2**15, (1,)),
            (1, "instruction", 2**15, (0,)),
            (2, "unified", 2**20, (1,)),
        )
    ]
    head = machine_head(replace(small_vm, caches=tuple(caches)))  # type: ignore[arg-type]
    line = "caches  L1d 32.0 KiB, L1i 32.0 KiB, L2 1.0 MiB per core; L3 32.0 MiB per 2 cores"
    assert head.splitlines()[3] == line


def test_every_conclusion_stands_with_its_evidence(knights_landing: Topology) -> None:
    text = show_machine(knights_landing)
    assert _section(text, "Set up as") == [
        "  cores   SNC-4 (four nodes with cpus)",
        "  memory  flat (MCDRAM nodes of 16 GiB in all)",
    ]
    assert _section(text, "Known by") == [
        "  nodes 0-3  DRAM: it has cpus",
        "  nodes 4-7  MCDRAM: memory without cpus on a Xeon Phi is its MCDRAM",
        "  node 4     near node 1: distance 31 to node 1, 41 to others",
        "  node 5     near node 2: distance 31 to node 2, 41 to others",
        "  node 6     near node 3: distance 31 to node 3, 41 to others",
        "  node 7     near node 0: distance 31 to node 0, 41 to others",
    ]


def test_evidence_in_files_of_each_node_is_told_once(xeon_max: Topology) -> None:
    nodes = tuple(
        replace(node, performance_source=f"/sys/node/node{node.id}/access1")
        for node in xeon_max.numa_nodes
    )
    known = _section(show_machine(replace(xeon_max, numa_nodes=nodes)), "Known by")
    assert "  nodes 0-3  bandwidth and latency: /sys/node/nodeN/access1" in known


def test_distances_are_a_square_by_node_id(xeon_max: Topology) -> None:
    assert _section(show_machine(xeon_max), "Distances, as the firmware gives them") == [
        "  to node   0   1   2   3",
        "  node 0   10  21  13  23",
        "  node 1   21  10  23  13",
        "  node 2   13  23  10  23",
        "  node 3   23  13  23  10",
    ]


def test_machine_of_one_node_shows_no_distances_and_no_empty_sections(small_vm: Topology) -> None:
    text = show_machine(small_vm)
    titles = [line for line in text.splitlines() if line and line[0].isupper()]
    assert titles == ["Known by", "To note", "Read from"]
    assert _section(text, "To note") == ["  * sysfs hides the caches"]


def test_what_this_process_may_use_is_told_with_who_limits_it(xeon_max: Topology) -> None:
    allowed = AllowedResources(
        cpus=(0, 1, 2, 3),
        mems=(0, 1),
        said_by=("Slurm (--mem-bind=local): memory nodes 0-1 of 0-3",),
        notes=("start with srun --mem-bind=none",),
    )
    assert _section(show_machine(xeon_max, allowed), "This process may use") == [
        "  4 of 208 cpus: 0-3",
        "  2 of 4 memory nodes: 0-1",
        "  limited by Slurm (--mem-bind=local): memory nodes 0-1 of 0-3",
        "  * start with srun --mem-bind=none",
    ]


def test_parts_are_counted_as_people_do() -> None:
    assert part("cpu", [0, 1], [0, 1]) == "all 2 cpus: 0-1"
    assert part("memory node", [0], [0]) == "the only memory node: 0"
    assert part("cpu", [5], [0, 1]) == "0 of 2 cpus: none"


def test_memory_whose_size_nothing_tells_is_shown_so(small_vm: Topology) -> None:
    unknown = [replace(node, memory_bytes=0, free_bytes=0) for node in small_vm.numa_nodes]
    told = show_machine(replace(small_vm, numa_nodes=tuple(unknown)))
    assert f"memory  of a size not told in {len(unknown)} NUMA node" in told
