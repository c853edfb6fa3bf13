from __future__ import annotations

from pathlib import Path

import pytest

from affinity.errors import TopologyError
from affinity.machine.description import Description, Processor, ThreadPlace
from affinity.machine.libvirt_xml import describe_libvirt_xml

MIB = 1 << 20

_VIRTUAL = ("hypervisor",)


def _domain(cpu: str = "", vcpu: str = "<vcpu>8</vcpu>", more: str = "") -> str:
    return f"<domain type='kvm'>\n{vcpu}\n{more}<cpu>\n{cpu}\n</cpu></domain>"


def _describe(text: str) -> Description:
    return describe_libvirt_xml(text, "vm.xml")


def test_cpus_are_numbered_thread_by_thread_core_by_core() -> None:
    threads = _describe(_domain("<topology sockets='2' dies='1' cores='2' threads='2'/>")).threads
    assert threads == {
        0: ThreadPlace(0, 0, "0-1"),
        1: ThreadPlace(0, 0, "0-1"),
        2: ThreadPlace(0, 1, "2-3"),
        3: ThreadPlace(0, 1, "2-3"),
        4: ThreadPlace(1, 0, "4-5"),
        5: ThreadPlace(1, 0, "4-5"),
        6: ThreadPlace(1, 1, "6-7"),
        7: ThreadPlace(1, 1, "6-7"),
    }


def test_dies_and_clusters_multiply_the_cores_of_a_package() -> None:
    text = "<topology sockets='1' dies='2' clusters='2' cores='2' threads='1'/>"
    threads = _describe(_domain(text)).threads
    assert [(place.package, place.core) for place in threads.values()] == [
        (0, core) for core in range(8)
    ]


def test_without_a_topology_every_cpu_is_a_package() -> None:
    threads = _describe(_domain(vcpu="<vcpu>2</vcpu>")).threads
    assert threads == {0: ThreadPlace(0, 0, "0"), 1: ThreadPlace(1, 0, "1")}
    assert list(_describe("<domain/>").threads) == [0]


def test_cpus_that_are_not_plugged_are_offline() -> None:
    cells = "<numa><cell cpus='0-3' memory='1'/><cell cpus='4-7' memory='1'/></numa>"
    description = _describe(_domain(cells, vcpu="<vcpu current='5'>8</vcpu>"))
    assert sorted(description.threads) == [0, 1, 2, 3, 4]
    assert description.offline_cpus == (5, 6, 7)
    assert description.nodes[1].cpus == (4,)
    assert description.nodes[1].offline_cpus == (5, 6, 7)
    assert "cpus 5-7 are not plugged" in description.notes


def test_cells_have_cpus_and_memory_in_their_unit() -> None:
    cells = (
        "<numa><cell id='4' cpus='4-7' memory='2' unit='GiB'/>"
        "<cell id='0' cpus='0-3,^1' memory='512'/>"
        "<cell id='9' cpus='1' memory='1' unit='MB'/></numa>"
    )
    nodes = _describe(_domain(cells)).nodes
    assert list(nodes) == [0, 4, 9]
    assert [node.cpus for node in nodes.values()] == [(0, 2, 3), (4, 5, 6, 7), (1,)]
    assert [node.memory_bytes for node in nodes.values()] == [512 * 1024, 2048 * MIB, 1_000_000]
    assert [node.free_bytes for node in nodes.values()] == [512 * 1024, 2048 * MIB, 1_000_000]


def test_cells_without_ids_are_counted() -> None:
    cells = "<numa><cell cpus='0-7' memory='1'/><cell memory='1'/></numa>"
    assert list(_describe(_domain(cells)).nodes) == [0, 1]


def test_machine_without_cells_is_one_node() -> None:
    nodes = _describe(_domain(more="<memory unit='MiB'>96</memory>")).nodes
    assert list(nodes) == [0]
    assert (nodes[0].cpus, nodes[0].memory_bytes) == (tuple(range(8)), 96 * MIB)


def test_cpus_of_no_cell_go_to_the_first_and_a_note_says_so() -> None:
    cells = "<numa><cell id='1' cpus='6-7' memory='1'/><cell id='0' cpus='0-3' memory='1'/></numa>"
    description = _describe(_domain(cells))
    assert description.nodes[0].cpus == (0, 1, 2, 3, 4, 5)
    assert "cpus 4-5 are in no cell: QEMU puts them into 0" in description.notes


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("", Processor(flags=_VIRTUAL)),
        ("<model>KnightsMill</model>", Processor("GenuineIntel", 6, 133, "KnightsMill", _VIRTUAL)),
        (
            "<model fallback='forbid'>Cascadelake-Server-noTSX</model>",
            Processor("GenuineIntel", 6, 85, "Cascadelake-Server-noTSX", _VIRTUAL),
        ),
        (
            "<model>EPYC-Milan</model><vendor>AMD</vendor>",
            Processor("AuthenticAMD", None, None, "EPYC-Milan", _VIRTUAL),
        ),
    ],
)
def test_processor_is_the_model_that_qemu_shows(inside: str, expected: Processor) -> None:
    assert _describe(_domain(inside)).processor == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<domain><cpu>", r"vm\.xml is damaged at line 1, column 14"),
        ("<network/>", "<network> has been found where libvirt's <domain> was expected"),
        (_domain(vcpu="<vcpu>many</vcpu>"), r"line 2: <vcpu> has 'many' where a number of cpus"),
        (_domain(vcpu="<vcpu>0</vcpu>"), "<vcpu> has '0'"),
        (_domain(vcpu="<vcpu>99999999999</vcpu>"), "<vcpu> has '99999999999'"),
        (_domain("<topology sockets='3'/>"), "line 4: <topology> has 3 cpus, but <vcpu> says 8"),
        (_domain("<topology sockets='x'/>"), "<topology> has sockets='x'"),
        (
            _domain("<numa><cell id='0' cpus='0-3' memory='1'/><cell id='0' memory='1'/></numa>"),
            "<cell> has id 0, which an earlier cell has too",
        ),
        (
            _domain("<numa><cell cpus='0-3' memory='1'/><cell cpus='3-7' memory='1'/></numa>"),
            "<cell> has cpus that an earlier cell has too",
        ),
        (
            _domain("<numa><cell cpus='0-11' memory='1'/></numa>"),
            "<cell> has cpus 8-11, which this machine does not have",
        ),
        (_domain("<numa><cell cpus='0-' memory='1'/></numa>"), "<cell> has cpus that cannot be"),
        (_domain("<numa><cell cpus='0-999999999' memory='1'/></numa>"), "beyond 16384 cpus"),
        (_domain("<numa><cell cpus='0-7' memory='1' unit='Gb/s'/></numa>"), "has unit 'Gb/s'"),
        (_domain("<numa><cell cpus='0-7'/></numa>"), "has '' where an amount of memory"),
    ],
)
def test_damage_and_contradictions_are_told_with_their_place(text: str, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        _describe(text)


def test_memkind_s_knights_mill_with_four_clusters(shared_topologies: Path) -> None:
    description = _describe((shared_topologies / "memkind/knm_snc4.xml").read_text())
    assert description.processor == Processor(flags=_VIRTUAL)
    assert {place.package for place in description.threads.values()} == {0}
    assert len({place.siblings for place in description.threads.values()}) == 16
    nodes = description.nodes
    assert [node.cpus for node in nodes.values()] == [
        *((0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11), (12, 13, 14, 15)),
        *((), (), (), ()),
    ]
    assert [node.memory_bytes for node in nodes.values()] == 4 * [1280 * MIB] + 4 * [128 * MIB]
    assert [description.distances[6, other] for other in range(8)] == [
        *(41, 41, 31, 41),
        *(41, 41, 10, 41),
    ]
    assert all(node.initiators == () for node in nodes.values())


def test_memkind_s_cascade_lake_has_its_memories_nearest_cpus_and_figures(
    shared_topologies: Path,
) -> None:
    description = _describe((shared_topologies / "memkind/clx_4_var1_emul_hbw.xml").read_text())
    assert description.processor == Processor("GenuineIntel", 6, 85, "Cascadelake-Server", _VIRTUAL)
    nodes = description.nodes
    assert [node.initiators for node in nodes.values()] == [
        *((), (), (), ()),
        *((0,), (1,), (2,), (3,)),
    ]
    assert [node.read_bandwidth for node in nodes.values()] == 4 * [111_000] + 4 * [204_800]
    assert [node.read_latency for node in nodes.values()] == 4 * [72] + 4 * [170]
    assert [node.memory_bytes // MIB for node in nodes.values()] == 4 * [256] + 4 * [196]
    assert {place.package for place in description.threads.values()} == {0, 1, 2, 3}
