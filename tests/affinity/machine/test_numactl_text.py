from __future__ import annotations

import pytest

from affinity.errors import TopologyError
from affinity.machine.inference import conclude
from affinity.machine.numactl_text import describe_numactl

GIB = 1 << 30

FLAT = """\
available: 4 nodes (0-1,8-9)
node 0 cpus: 0 1 4 5
node 0 size: 65536 MB
node 0 free: 32768 MB
node 1 cpus: 2 3 6 7
node 1 size: 65536 MB
node 1 free: 1024 MB
node 8 cpus:
node 8 size: 16384 MB
node 8 free: 16384 MB
node 9 cpus:
node 9 size: 16384 MB
node 9 free: 16000 MB
node distances:
node   0   1   8   9
  0:  10  21  23  13
  1:  21  10  13  23
  8:  23  13  10  23
  9:  13  23  23  10
"""

LSCPU = """\
Architecture:            x86_64
  CPU op-mode(s):        32-bit, 64-bit
CPU(s):                  8
  On-line CPU(s) list:   0-7
Vendor ID:               GenuineIntel
  Model name:            Intel(R) Xeon(R) CPU Max 9480
    CPU family:          6
    Model:               143
    Thread(s) per core:  1
    Core(s) per socket:  4
    Socket(s):           2
    Flags:               fpu sse avx2 avx512f amx_tile
NUMA:
  NUMA node(s):          4
  NUMA node0 CPU(s):     0,1,4,5
"""


def test_memories_cpus_and_distances_are_read() -> None:
    description = describe_numactl(FLAT, "flat.txt")
    assert list(description.nodes) == [0, 1, 8, 9]
    assert description.nodes[0].cpus == (0, 1, 4, 5)
    assert description.nodes[0].memory_bytes == 64 * GIB
    assert description.nodes[0].free_bytes == 32 * GIB
    assert description.nodes[9].cpus == ()
    assert description.distances[8, 1] == 13
    assert description.distances[9, 1] == 23
    assert description.sources == ["memory and cpus: flat.txt, the text of numactl -H"]


def test_the_text_alone_gives_cores_packages_and_hbm() -> None:
    topology = conclude(describe_numactl(FLAT, "flat.txt"))
    assert [core.cpus for core in topology.cores] == [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert [core.package for core in topology.cores] == [0, 0, 1, 1]
    assert [(node.id, node.kind, node.near) for node in topology.numa_nodes] == [
        (0, "dram", (0,)),
        (1, "dram", (1,)),
        (8, "hbm", (1,)),
        (9, "hbm", (0,)),
    ]


@pytest.mark.parametrize("text", [FLAT + "\n" + LSCPU, LSCPU + "\n" + FLAT])
def test_lscpu_before_or_after_tells_the_processor(text: str) -> None:
    description = describe_numactl(text, "both.txt")
    assert description.processor.vendor == "GenuineIntel"
    assert (description.processor.family, description.processor.model) == (6, 143)
    assert description.processor.name == "Intel(R) Xeon(R) CPU Max 9480"
    assert "amx_tile" in description.processor.flags
    assert "processor: lscpu, in both.txt" in description.sources
    # One thread per core, although the numbers look like two.
    assert len(conclude(description).cores) == 8


def test_cpus_may_be_ranges_and_commands_may_be_copied_along() -> None:
    text = FLAT.replace("node 0 cpus: 0 1 4 5", "node 0 cpus: 0-1,4-5")
    description = describe_numactl(f"[me@host ~]$ numactl --hardware\n{text}", "flat.txt")
    assert description.nodes[0].cpus == (0, 1, 4, 5)


@pytest.mark.parametrize(
    "prompt",
    ["[user@x4415 ~]$", "user@host:~/runs$", "root@host ~ #", "[root@x ~]# numactl -H", "~>", "$"],
)
def test_a_shell_prompt_is_no_line_of_numactl(prompt: str) -> None:
    description = describe_numactl(f"{FLAT}{prompt} \n", "copied.txt")
    assert list(description.nodes) == [0, 1, 8, 9]
    assert description.distances[9, 1] == 23


def test_lscpu_that_counts_no_threads_is_left_aside() -> None:
    zeros = LSCPU.replace("per core:  1", "per core:  0").replace(
        "ket(s):           2", "ket(s): 0"
    )
    description = describe_numactl(FLAT + zeros, "vm.txt")
    assert "lscpu tells 0 threads per core, which cannot be: left aside" in description.notes
    assert "lscpu tells 0 packages, which cannot be: left aside" in description.notes
    assert [core.cpus for core in conclude(description).cores] == [(0, 4), (1, 5), (2, 6), (3, 7)]


def test_comments_name_processor_threads_and_cores() -> None:
    text = "# a Xeon Phi 7250 (68 cores x 4 HT), flat\nnode 0 cpus: 0-271\nnode 0 size: 98200 MB\n"
    description = describe_numactl(text, "knl.txt")
    assert description.processor.name == "Xeon Phi 7250"
    assert "processor: a comment in knl.txt" in description.sources
    assert len(conclude(description).cores) == 68


def test_comments_tell_the_cores_of_a_package() -> None:
    lines = [f"node {node} cpus: {node}\nnode {node} size: 512 MB" for node in range(4)]
    text = "\n".join(["# dual Xeon Max (2 cores/socket)", *lines])
    topology = conclude(describe_numactl(text, "max.txt"))
    assert [core.package for core in topology.cores] == [0, 0, 1, 1]


def test_announced_nodes_that_are_missing_are_noted_and_the_rest_is_kept() -> None:
    text = "\n".join(FLAT.splitlines()[:10])
    description = describe_numactl(text, "cut.txt")
    assert list(description.nodes) == [0, 1, 8]
    assert "4 nodes are announced, but 9 not described: they are left out" in description.notes
    assert any("no node distances" in note for note in description.notes)


def test_distances_to_nodes_that_are_not_described_are_left_out() -> None:
    text = "\n".join(line for line in FLAT.splitlines() if not line.startswith("node 9"))
    description = describe_numactl(text, "cut.txt")
    assert (0, 9) not in description.distances
    assert description.distances[8, 1] == 13


def test_memory_whose_free_part_is_not_told_counts_as_free() -> None:
    text = "\n".join(line for line in FLAT.splitlines() if "free" not in line)
    description = describe_numactl(text, "flat.txt")
    assert description.nodes[8].free_bytes == 16 * GIB
    assert any("free is not told of node 0-1,8-9" in note for note in description.notes)


def test_sizes_may_be_unavailable() -> None:
    text = FLAT.replace("node 8 size: 16384 MB", "node 8 size: <not available>")
    description = describe_numactl(text, "flat.txt")
    assert description.nodes[8].memory_bytes == 0
    assert [node.size_told for node in description.nodes.values()] == [True, True, False, True]
    assert conclude(description).node(8).kind == "hbm"
    assert "no memory is told of node 8" in description.notes


def test_one_node_needs_no_distances() -> None:
    text = (
        "available: 1 nodes (0)\nnode 0 cpus: 0 1\nnode 0 size: 512 MB\nnode 0 free: 100 MB\n"
        "No distance information available.\n"
    )
    description = describe_numactl(text, "vm.txt")
    assert list(description.nodes) == [0]
    assert not any("distances" in note for note in description.notes)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("node 1 cpus: 2 3 6 7", "node 1 cpus: 2 3 six 7", 5),
        ("node 1 cpus: 2 3 6 7", "node 1 cpus: 2 3 4 7", 5),
        ("node 1 cpus: 2 3 6 7", "node 1 cpus 2 3 6 7", 5),
        ("node 0 size: 65536 MB", "node 0 size: much", 3),
        ("  8:  23  13  10  23", "  8:  23  13  10", 18),
        ("  8:  23  13  10  23", "  8:  23  13  10  x", 18),
        ("  8:  23  13  10  23", "8", 18),
        ("available: 4 nodes (0-1,8-9)", "hello", 1),
        ("node 0 size: 65536 MB", f"node {'9' * 5000} size: 65536 MB", 3),
        ("node 0 size: 65536 MB", f"node 0 size: {'9' * 5000} MB", 3),
        ("  8:  23  13  10  23", f"  {'9' * 5000}:  23  13  10  23", 18),
        ("  8:  23  13  10  23", f"  8:  23  13  10  {'9' * 5000}", 18),
    ],
)
def test_damage_is_shown_with_its_line(old: str, new: str, line: int) -> None:
    with pytest.raises(TopologyError) as error:
        describe_numactl(FLAT.replace(old, new), "bad.txt")
    assert str(error.value).startswith(f"bad.txt, line {line}: ")
    assert repr(new.strip()[:200]) in str(error.value)


def test_a_cpu_of_two_nodes_is_refused_with_both() -> None:
    with pytest.raises(TopologyError, match="cpus 5 are those of node 0 already"):
        describe_numactl(FLAT.replace("2 3 6 7", "2 3 5 7"), "bad.txt")


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "available: 1 nodes (0)\nnode 0 cpus:\n", LSCPU]
)
def test_a_text_without_cpus_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(TopologyError, match="'node 0 cpus: 0 1 2 3'"):
        describe_numactl(text, "bad.txt")


def test_nodes_that_numa_fake_cuts_out_of_one_share_their_cpus() -> None:
    text = "".join(f"node {n} cpus: 0 1 2 3\nnode {n} size: 64 MB\n" for n in range(4))
    topology = conclude(describe_numactl(f"available: 4 nodes (0-3)\n{text}", "fake.txt"))
    assert [node.cpus for node in topology.numa_nodes] == [(0, 1, 2, 3)] * 4
    assert topology.cpus == (0, 1, 2, 3)


def test_text_of_two_machines_is_refused_at_the_second() -> None:
    with pytest.raises(TopologyError, match="one machine was expected"):
        describe_numactl(FLAT + FLAT, "two.txt")
