from __future__ import annotations

from collections.abc import Iterable

import pytest

from affinity.errors import TopologyError
from affinity.machine.description import Description, NodeFacts, ToldKind
from affinity.machine.hwloc_xml import describe_hwloc_xml
from affinity.machine.inference import conclude
from affinity.topology import SideCache

GIB = 1 << 30


def _describe(text: str) -> Description:
    return describe_hwloc_xml(text, "m.xml")


def _doubts(description: Description) -> list[str]:
    return [note for note in description.notes if "does not tell whether the cpus belong" in note]


def test_memory_called_mcdram_has_no_cpus_though_hwloc_gives_it_some(hwloc) -> None:
    inside = (hwloc.node(0, [0, 1]), hwloc.node(1, [0, 1], subtype="MCDRAM"), hwloc.core(0, 0, 1))
    description = _describe(hwloc.topology(*inside))
    assert description.nodes[0].cpus == (0, 1)
    assert description.nodes[1] == NodeFacts(
        id=1,
        memory_bytes=GIB,
        free_bytes=GIB,
        told=ToldKind("hbm", "hwloc's subtype MCDRAM"),
        initiators=(0,),
        initiators_source="hwloc's locality",
    )
    assert _doubts(description) == []


def test_memory_called_mcdram_with_the_lower_id_still_has_no_cpus(hwloc) -> None:
    inside = (hwloc.node(0, [0], subtype="MCDRAM"), hwloc.node(1, [0]), hwloc.core(0, 0))
    nodes = _describe(hwloc.topology(*inside)).nodes
    assert (nodes[0].cpus, nodes[1].cpus) == ((), (0,))


@pytest.mark.parametrize(
    ("subtype", "kind"),
    [
        ("DRAM", "dram"),
        ("HBM", "hbm"),
        ("MCDRAM", "hbm"),
        ("NVM", "pmem"),
        ("GPUMemory", "gpu"),
        ("CXL-DRAM", "cxl"),
        ("CXL-NVM", "pmem"),
    ],
)
def test_subtype_is_the_kind_that_the_source_tells(hwloc, subtype: str, kind: str) -> None:
    text = hwloc.topology(hwloc.node(3, [0], subtype=subtype), hwloc.core(0, 0))
    assert _describe(text).nodes[3].told == ToldKind(kind, f"hwloc's subtype {subtype}")


def test_soft_reserved_memory_is_of_no_told_kind(hwloc) -> None:
    node = hwloc.node(1, [0], subtype="SPM", infos={"DAXType": "SPM", "DAXParent": "hmem.0"})
    facts = _describe(hwloc.topology(hwloc.node(0, [0]), node, hwloc.core(0, 0))).nodes[1]
    assert (facts.told, facts.dax, facts.cpus) == (None, "soft-reserved", ())


def test_devices_behind_memory_are_told(hwloc) -> None:
    text = hwloc.topology(
        hwloc.node(0, [0]),
        hwloc.node(1, [0], infos={"DAXType": "NVM"}),
        hwloc.node(2, [0], infos={"DAXType": "SPM", "CXLDevice": "0000:12:00.0"}),
        hwloc.core(0, 0),
    )
    nodes = _describe(text).nodes
    assert [nodes[node].dax for node in range(3)] == [None, "pmem", "cxl"]
    assert [nodes[node].cpus for node in range(3)] == [(0,), (), ()]


def test_distances_tell_whose_the_cpus_are_whatever_the_ids(hwloc) -> None:
    # Two packages; nodes 0 and 3 are DRAM, 2 and 1 the HBM beside them.
    inside = (
        *(hwloc.node(node, [0, 1]) for node in (0, 2)),
        *(hwloc.node(node, [2, 3]) for node in (1, 3)),
        *(hwloc.core(core, core) for core in range(4)),
    )
    rows = ([10, 23, 13, 21], [23, 10, 23, 13], [13, 23, 10, 23], [21, 13, 23, 10])
    description = _describe(hwloc.topology(*inside, after=hwloc.distances(range(4), *rows)))
    assert [node.cpus for node in description.nodes.values()] == [(0, 1), (), (), (2, 3)]
    assert [node.initiators for node in description.nodes.values()] == [(), (3,), (0,), ()]
    assert _doubts(description) == []


def test_latency_tells_whose_the_cpus_are_where_distances_do_not(hwloc) -> None:
    inside = (hwloc.node(0, [0]), hwloc.node(1, [0]), hwloc.core(0, 0))
    after = hwloc.memattr("Latency", {0: (250, [0]), 1: (110, [0])})
    description = _describe(hwloc.topology(*inside, after=after))
    assert (description.nodes[0].cpus, description.nodes[1].cpus) == ((), (0,))
    assert _doubts(description) == []


def test_lowest_id_has_the_cpus_where_nothing_tells_and_a_note_says_so(hwloc) -> None:
    nodes = (hwloc.node(node, [0]) for node in (2, 4, 6))
    description = _describe(hwloc.topology(*nodes, hwloc.core(0, 0)))
    assert [node.cpus for node in description.nodes.values()] == [(0,), (), ()]
    assert _doubts(description) == [
        "hwloc does not tell whether the cpus belong to node 2 or to 4, 6, which are near "
        "to the same ones: taken for 2's"
    ]


def test_memory_near_to_several_nodes_has_none_of_their_cpus(hwloc) -> None:
    # The one with the lowest id is near to both clusters of the first package of two.
    text = hwloc.topology(
        hwloc.node(0, [0, 1]),
        hwloc.node(1, [0]),
        hwloc.node(2, [1]),
        hwloc.node(3, [2]),
        *(hwloc.core(core, core) for core in range(3)),
    )
    nodes = _describe(text).nodes
    assert [nodes[node].cpus for node in range(4)] == [(), (0,), (1,), (2,)]
    assert nodes[0].initiators == (1, 2)


def test_memory_near_to_all_nodes_has_no_initiators_as_hwloc_does_not_know_them(hwloc) -> None:
    text = hwloc.topology(
        hwloc.node(0, [0]),
        hwloc.node(1, [1]),
        hwloc.node(2, [0, 1]),
        hwloc.core(0, 0),
        hwloc.core(1, 1),
    )
    facts = _describe(text).nodes[2]
    assert (facts.cpus, facts.initiators, facts.initiators_source) == ((), (), "")


def test_hbm_alone_has_the_cpus_and_cxl_beside_it_has_not(hwloc) -> None:
    inside = (
        hwloc.node(0, [0], subtype="CXL-DRAM"),
        hwloc.node(1, [0], subtype="HBM"),
        hwloc.core(0, 0),
    )
    nodes = _describe(hwloc.topology(*inside)).nodes
    assert (nodes[0].cpus, nodes[1].cpus) == ((), (0,))


def test_old_nodes_without_cpus_have_an_empty_set(hwloc) -> None:
    inside = (hwloc.node(0, [0]), hwloc.node(16, []), hwloc.core(0, 0))
    nodes = _describe(hwloc.topology(*inside)).nodes
    assert (nodes[0].cpus, nodes[16].cpus, nodes[16].initiators) == ((0,), (), ())


def test_node_whose_cpus_are_offline_says_which(hwloc) -> None:
    gone = hwloc.node(1, [], complete_cpuset="0x0000000c")
    text = hwloc.topology(
        hwloc.node(0, [0, 1]), gone, hwloc.core(0, 0, 1), complete_cpuset="0x0000000f"
    )
    description = _describe(text)
    assert description.offline_cpus == (2, 3)
    assert (description.nodes[1].cpus, description.nodes[1].offline_cpus) == ((), (2, 3))
    assert description.nodes[0].offline_cpus == ()


def test_machine_without_nodes_counts_as_one(hwloc) -> None:
    description = _describe(hwloc.topology(hwloc.core(0, 0, 1), local_memory=str(3 * GIB)))
    assert list(description.nodes) == [0]
    assert (description.nodes[0].cpus, description.nodes[0].memory_bytes) == ((0, 1), 3 * GIB)
    assert "hwloc knows of no NUMA nodes here: all memory counts as one" in description.notes


def test_nodes_with_the_same_number_are_an_error(hwloc) -> None:
    text = hwloc.topology(hwloc.node(3, [0]), hwloc.node(3, [0]), hwloc.core(0, 0))
    with pytest.raises(TopologyError, match=r"line \d+: <object> has os_index 3, which an earlier"):
        _describe(text)


def test_figures_come_with_their_source(hwloc) -> None:
    inside = (hwloc.node(0, [0]), hwloc.node(1, [0], subtype="HBM"), hwloc.core(0, 0))
    after = hwloc.memattr("Bandwidth", {0: (0, [0]), 1: (700, [0])})
    nodes = _describe(hwloc.topology(*inside, after=after)).nodes
    assert nodes[0].zero_performance
    assert nodes[0].read_bandwidth is None
    assert not nodes[1].zero_performance
    assert (nodes[1].read_bandwidth, nodes[1].write_bandwidth) == (700, 700)
    assert nodes[1].performance_source == "hwloc's table of memory attributes"
    knl = hwloc.topology(*inside, hwloc.info("ClusterMode", "SNC4"), after=after)
    assert _describe(knl).nodes[1].performance_source == "hwloc's built-in table for Xeon Phi"


def test_memory_cache_belongs_to_the_node_in_it(hwloc) -> None:
    cache = hwloc.object(
        "MemCache",
        hwloc.node(0, [0]),
        cpus=[0],
        depth=1,
        cache_size=96 * GIB,
        cache_linesize=64,
        cache_associativity=1,
    )
    text = hwloc.topology(cache, hwloc.node(1, [1]), hwloc.core(0, 0), hwloc.core(1, 1))
    description = _describe(text)
    assert description.nodes[0].side_caches == (
        SideCache(96 * GIB, 64, "direct", "hwloc's MemCache"),
    )
    assert description.nodes[1].side_caches == ()
    assert description.caches == []


def test_mcdram_as_a_cache_is_no_l3_and_caches_the_dram_only(hwloc) -> None:
    memories = (hwloc.node(0, [0]), hwloc.node(1, [0], subtype="MCDRAM"))
    l3 = hwloc.object(
        "L3Cache",
        *memories,
        hwloc.core(0, 0),
        cpus=[0],
        depth=3,
        subtype="MemorySideCache",
        cache_size=2 * GIB,
        cache_linesize=64,
        cache_associativity=0,
    )
    description = _describe(hwloc.topology(l3))
    expected = SideCache(2 * GIB, 64, "unknown", "hwloc's L3Cache MemorySideCache")
    assert description.nodes[0].side_caches == (expected,)
    assert description.nodes[1].side_caches == ()
    assert description.caches == []


def test_hwloc_assumes_the_mcdram_of_any_xeon_phi(hwloc) -> None:
    infos = {"CPUVendor": "GenuineIntel", "CPUFamilyNumber": "6", "CPUModelNumber": "133"}
    given = {"depth": 3, "subtype": "MemorySideCache", "cache_size": 16 * GIB}
    l3 = hwloc.object("L3Cache", hwloc.node(0, [0]), hwloc.core(0, 0), cpus=[0], **given)
    package = hwloc.object("Package", l3, infos=infos)
    (cache,) = _describe(hwloc.topology(package)).nodes[0].side_caches
    assert (cache.size_bytes, cache.assumed) == (16 * GIB, True)
    assert cache.evidence == (
        "hwloc's L3Cache MemorySideCache, a part of the 16 GiB that hwloc assumes on any Xeon Phi"
    )


def test_soft_reserved_memory_that_is_not_used_is_noted_with_the_way_out(hwloc) -> None:
    device = hwloc.object(
        "OSDev",
        name="dax0.0",
        infos={"DAXType": "SPM", "DAXParent": "hmem.0", "Size": "67108864KiB"},
    )
    node = hwloc.node(1, [0], infos={"DAXType": "SPM", "DAXParent": "hmem.0"})
    apart = _describe(hwloc.topology(hwloc.node(0, [0]), hwloc.core(0, 0), device))
    assert apart.notes[0] == (
        "64.0 GiB of soft-reserved memory (HBM) is present but offline as dax0.0: "
        "daxctl reconfigure-device --mode=system-ram dax0.0"
    )
    used = _describe(hwloc.topology(hwloc.node(0, [0]), node, hwloc.core(0, 0), device))
    assert not any("daxctl" in note for note in used.notes)


def _converted(hwloc, old: bool) -> str:
    """A Xeon Phi in SNC-4, as hwloc converts it between formats 1 and 2: MCDRAM has no set."""
    clusters = []
    for dram, mcdram in ((0, 7), (1, 4), (2, 5), (3, 6)):
        cpus = [2 * dram, 2 * dram + 1]
        cores = [hwloc.core(cpu, cpu) for cpu in cpus]
        memory = hwloc.node(mcdram, [], subtype="MCDRAM")
        if old:  # A NUMANode holds its cores, and has its kind among the infos.
            inside = [
                hwloc.object(
                    *("NUMANode", *cores),
                    cpus=cpus,
                    os_index=dram,
                    local_memory=1 << 30,
                    infos={"Type": "DRAM"},
                ),
                hwloc.node(mcdram, [], infos={"Type": "MCDRAM"}),
            ]
        else:
            group = hwloc.object("Group", memory, cpus=[])
            inside = [hwloc.node(dram, cpus, subtype="DRAM"), *cores, group]
        clusters.append(hwloc.object("Group", *inside, cpus=cpus))
    infos = {"CPUVendor": "GenuineIntel", "CPUFamilyNumber": "6", "CPUModelNumber": "87"}
    package = hwloc.object("Package", *clusters, cpus=range(8), os_index=0, infos=infos)
    return hwloc.topology(package, version="1" if old else "2.0")


@pytest.mark.parametrize("old", [False, True], ids=["1 to 2", "2 to 1"])
def test_memory_without_a_set_is_that_of_the_group_around_it(hwloc, old: bool) -> None:
    topology = conclude(_describe(_converted(hwloc, old)))
    near = {node.id: node.near for node in topology.numa_nodes if not node.cpus}
    assert near == {4: (1,), 5: (2,), 6: (3,), 7: (0,)}
    assert {node.kind for node in topology.numa_nodes if not node.cpus} == {"hbm"}
    assert all("locality" in topology.node(node).near_evidence for node in near)


@pytest.mark.parametrize(("complete", "near"), [((0, 1), (1,)), (range(8), (1,)), ((0, 9), ())])
def test_complete_set_is_that_of_offline_cpus_only_if_one_is(
    hwloc, complete: Iterable[int], near: tuple[int, ...]
) -> None:
    text = _converted(hwloc, old=False).replace(
        'complete_cpuset="0x00000000" os_index="4"',
        f'complete_cpuset="{hwloc.set(complete)}" os_index="4"',
    )
    assert text != _converted(hwloc, old=False)
    description = _describe(text)
    facts = description.nodes[4]
    assert (facts.initiators or (), facts.offline_cpus) == (near, () if near else (9,))


def test_node_without_a_size_does_not_tell_it(hwloc) -> None:
    pages = '<page_type size="4096" count="0"/>'
    inside = (
        hwloc.node(0, [0]),
        hwloc.object("NUMANode", os_index=1, cpus=[0]),
        hwloc.object("NUMANode", pages, os_index=2, cpus=[0]),
        hwloc.core(0, 0),
    )
    nodes = _describe(hwloc.topology(*inside)).nodes
    assert {node: facts.size_told for node, facts in nodes.items()} == {0: True, 1: False, 2: True}


def test_nodes_that_hold_the_cpus_of_others_keep_them(hwloc) -> None:
    cores = [hwloc.core(cpu, cpu) for cpu in range(4)]
    inside = hwloc.object("Group", hwloc.node(1, [2, 3]), *cores[2:], cpus=[2, 3])
    topology = conclude(_describe(hwloc.topology(hwloc.node(0, range(4)), *cores[:2], inside)))
    assert [node.cpus for node in topology.numa_nodes] == [(0, 1, 2, 3), (2, 3)]
    assert [core.numa_node for core in topology.cores] == [0, 0, 1, 1]
    assert [node.near for node in topology.numa_nodes] == [(0, 1), (1,)]
