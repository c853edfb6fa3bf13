from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from affinity.errors import TopologyError
from affinity.machine.description import Description, Processor, ThreadPlace
from affinity.machine.inference import conclude
from affinity.machine.memory_kind import HbmWord
from affinity.topology import Core, HugePages

Describe = Callable[..., Description]

GIB = 1 << 30


def test_cores_are_ordered_by_package_node_and_cpu(describe: Describe) -> None:
    description = describe({0: 8, 1: 8})
    # Package 1 has the lower cpus, and the threads of a core are far apart.
    description.threads = {
        0: ThreadPlace(1, 0, "0,4"),
        4: ThreadPlace(1, 0, "0,4"),
        1: ThreadPlace(0, 0, "1,5"),
        5: ThreadPlace(0, 0, "1,5"),
        2: ThreadPlace(0, 1, "2"),
    }
    description.nodes[0].cpus, description.nodes[1].cpus = (1, 5, 2), (0, 4)
    assert conclude(description).cores == (
        Core(0, 0, 0, (1, 5)),
        Core(1, 0, 0, (2,)),
        Core(0, 1, 1, (0, 4)),
    )


@pytest.mark.parametrize(
    ("processor", "model"),
    [
        (Processor("GenuineIntel", 6, 87), "Xeon Phi (Knights Landing)"),
        (Processor("GenuineIntel", 6, 133, "06/85"), "Xeon Phi (06/85)"),
        (
            Processor("GenuineIntel", 6, 87, "Intel(R) Xeon Phi(TM) CPU"),
            "Intel(R) Xeon Phi(TM) CPU",
        ),
        (Processor("GenuineIntel", 6, 143), "unknown"),
    ],
)
def test_xeon_phi_is_called_so_also_by_its_numbers(
    describe: Describe, processor: Processor, model: str
) -> None:
    assert conclude(describe({0: 96}, {1: 16}, processor=processor)).model == model


def test_facts_of_a_memory_are_passed_on(describe: Describe) -> None:
    description = describe({0: 8}, {1: 4}, processor="phi")
    facts = description.nodes[1]
    facts.free_bytes, facts.write_bandwidth, facts.read_latency = GIB, 300, 150
    facts.performance_source, facts.tier = "HMAT", 2
    facts.huge_pages = (HugePages(2 << 20, 4, 3),)
    node = conclude(description).node(1)
    assert (node.memory_bytes, node.free_bytes) == (4 * GIB, GIB)
    assert (node.bandwidth_mb_per_second, node.latency_ns) == (300, 150)
    assert (node.performance_source, node.tier) == ("HMAT", 2)
    assert node.huge_pages == (HugePages(2 << 20, 4, 3),)
    assert (node.kind, node.near, node.near_evidence) == ("hbm", (0,), "no other node has cpus")


def test_processor_is_named_with_the_flags_of_interest(describe: Describe) -> None:
    description = describe({0: 8})
    description.processor = replace(
        description.processor, flags=("amx_tile", "sse", "avx512f", "avx")
    )
    topology = conclude(description)
    assert topology.model == "Intel(R) Xeon(R) Platinum 8480+"
    assert topology.vendor == "GenuineIntel"
    assert topology.isa == ("avx", "avx512f", "amx_tile")


def test_distances_are_in_the_order_of_the_nodes(describe: Describe) -> None:
    topology = conclude(describe({4: 8, 9: 8}, rows=[[10, 21], [22, 10]]))
    assert [node.id for node in topology.numa_nodes] == [4, 9]
    assert topology.distances == ((10, 21), (22, 10))


def test_distances_with_a_hole_are_left_out(describe: Describe) -> None:
    description = describe({0: 8, 1: 8}, rows=[[10, 21], [21, 10]])
    del description.distances[1, 0]
    assert conclude(description).distances == ()


def test_the_user_says_whose_memory_it_is(describe: Describe) -> None:
    rows = [[10, 21, 31], [21, 10, 41], [31, 41, 10]]
    description = describe({0: 8, 1: 8}, {2: 4}, rows=rows)
    node = conclude(description, [HbmWord(2, near=1)]).node(2)
    assert (node.near, node.near_evidence) == ((1,), "the user says so: --hbm")
    assert conclude(description, [HbmWord(2)]).node(2).near == (0,)


def test_the_user_cannot_name_nodes_that_do_not_exist(describe: Describe) -> None:
    with pytest.raises(TopologyError, match="--hbm names NUMA node 7, but this machine has 0-1"):
        conclude(describe({0: 8}, {1: 8}), [HbmWord(7)])


def test_the_user_cannot_give_memory_to_a_node_without_cpus(describe: Describe) -> None:
    with pytest.raises(TopologyError, match=r"near to node 2, which has no cpus: .* are 0"):
        conclude(describe({0: 8}, {1: 8, 2: 8}), [HbmWord(1, near=2)])


def test_a_machine_without_cpus_is_refused(describe: Describe) -> None:
    description = Description(sources=["processor: a.txt"])
    with pytest.raises(TopologyError, match=r"describes no cpus.*processor: a\.txt"):
        conclude(description)


def test_without_any_memory_all_cores_are_on_one_node() -> None:
    description = Description(threads={0: ThreadPlace(0, 0), 1: ThreadPlace(0, 1)})
    topology = conclude(description)
    assert [core.numa_node for core in topology.cores] == [0, 0]
    (node,) = topology.numa_nodes
    assert (node.id, node.cpus, node.memory_bytes, node.kind) == (0, (0, 1), 0, "unknown")
    assert topology.memory_near([0]) == (node,)


def test_cpus_that_no_node_lists_count_for_the_first_with_cpus(describe: Describe) -> None:
    description = describe({1: 8, 2: 8}, {0: 4})
    description.threads[9] = ThreadPlace(0, 9)
    topology = conclude(description)
    assert topology.cores[2] == Core(9, 0, 1, (9,))
    assert "no NUMA node lists the cpus 9: they count as those of the first" in topology.notes


def test_notes_end_with_the_way_out_for_memory_of_unknown_kind(describe: Describe) -> None:
    description = describe({0: 8}, {3: 4})
    description.notes = ["from the reader"]
    notes = conclude(description).notes
    assert notes[0] == "from the reader"
    assert "say --hbm 3" in notes[1]
    assert conclude(description, [HbmWord(3)]).notes == ("from the reader",)
