from __future__ import annotations

from pathlib import Path

import pytest

from affinity.errors import TopologyError
from affinity.machine.description import Description, KnightsFirmware, Processor, ThreadPlace
from affinity.machine.hwloc_xml import describe_hwloc_xml
from affinity.machine.inference import conclude
from affinity.topology import Cache

MIB = 1 << 20


def _describe(text: str) -> Description:
    return describe_hwloc_xml(text, "m.xml")


def _cores(description: Description) -> set[tuple[int, str]]:
    return {(place.package, place.siblings) for place in description.threads.values()}


def test_threads_are_placed_by_the_system_s_own_numbers(hwloc) -> None:
    packages = (
        hwloc.object("Package", hwloc.core(7, 0, 2), os_index=3),
        hwloc.object("Package", hwloc.core(7, 1, 3), os_index=5),
    )
    assert _describe(hwloc.topology(*packages)).threads == {
        0: ThreadPlace(3, 7, "0,2"),
        2: ThreadPlace(3, 7, "0,2"),
        1: ThreadPlace(5, 7, "1,3"),
        3: ThreadPlace(5, 7, "1,3"),
    }


def test_packages_without_numbers_are_counted(hwloc) -> None:
    packages = (
        hwloc.object("Package", hwloc.core(0, 0)),
        hwloc.object("Package", hwloc.core(0, 1), os_index=1),
    )
    threads = _describe(hwloc.topology(*packages)).threads
    assert (threads[0].package, threads[1].package) == (0, 1)


def test_thread_outside_cores_is_a_core_of_its_own(hwloc) -> None:
    threads = (hwloc.object("PU", os_index=cpu, cpus=[cpu]) for cpu in (4, 6))
    assert _describe(hwloc.topology(*threads)).threads == {
        4: ThreadPlace(0, 4, "cpu 4 alone"),
        6: ThreadPlace(0, 6, "cpu 6 alone"),
    }


def test_caches_have_level_kind_sizes_and_the_cpus_in_them(hwloc) -> None:
    def cache(kind: str, inside: str, level: int, code: int, size: int) -> str:
        given = {"depth": level, "cache_type": code, "cache_size": size, "cache_linesize": 64}
        return hwloc.object(kind, inside, **given)

    first = cache("L1iCache", hwloc.core(0, 0, 2), 1, 2, 32_768)
    tile = cache("L2Cache", first + hwloc.core(1, 1, 3), 2, 0, MIB)
    assert _describe(hwloc.topology(cache("Cache", tile, 3, 1, 8 * MIB))).caches == [
        Cache(3, "data", 8 * MIB, 64, (0, 1, 2, 3)),
        Cache(2, "unified", MIB, 64, (0, 1, 2, 3)),
        Cache(1, "instruction", 32_768, 64, (0, 2)),
    ]


@pytest.mark.parametrize("holder", ["Package", "Machine"])
def test_numbers_alone_tell_a_xeon_phi(hwloc, holder: str) -> None:
    infos = {"CPUVendor": "GenuineIntel", "CPUFamilyNumber": "6", "CPUModelNumber": "87"}
    mcdram = hwloc.node(1, [0, 1], local_memory=16 << 30)
    inside = (hwloc.node(0, [0, 1]), mcdram, hwloc.core(0, 0), hwloc.core(1, 1))
    if holder == "Package":
        text = hwloc.topology(hwloc.object("Package", *inside, os_index=0, infos=infos))
    else:
        text = hwloc.topology(*inside, infos=infos)
    topology = conclude(_describe(text))
    assert topology.model == "Xeon Phi (Knights Landing)"
    assert [node.kind for node in topology.numa_nodes] == ["dram", "hbm"]
    assert topology.node(1).evidence.endswith("model 87 of Intel's family 6 is Knights Landing")
    assert topology.modes is not None
    assert topology.modes.memory == "flat"


def test_processor_is_named_by_the_package_or_by_the_machine(hwloc) -> None:
    infos = {
        "CPUVendor": "GenuineIntel",
        "CPUFamilyNumber": "6",
        "CPUModelNumber": "143",
        "CPUModel": "Intel(R) Xeon(R) CPU Max 9480 ",
    }
    expected = Processor("GenuineIntel", 6, 143, "Intel(R) Xeon(R) CPU Max 9480")
    package = hwloc.object("Package", hwloc.core(0, 0), infos=infos)
    assert _describe(hwloc.topology(package)).processor == expected
    aside = "".join(hwloc.info(name, value) for name, value in infos.items())
    assert _describe(hwloc.topology(aside, hwloc.core(0, 0))).processor == expected
    assert _describe(hwloc.topology(hwloc.core(0, 0))).processor == Processor()


def test_modes_of_a_xeon_phi_are_told_without_those_that_may_be_guesses(hwloc) -> None:
    def knights(cluster: str, memory: str) -> Description:
        modes = hwloc.info("ClusterMode", cluster) + hwloc.info("MemoryMode", memory)
        return _describe(hwloc.topology(modes, hwloc.core(0, 0)))

    source = "hwloc's ClusterMode=Hemisphere MemoryMode=Hybrid25"
    firmware = KnightsFirmware("Hemisphere", "Hybrid25", 0, source)
    assert knights("Hemisphere", "Hybrid25").knights == firmware
    guessed = knights("Quadrant", "Flat")
    assert guessed.knights is not None
    assert (guessed.knights.cluster_mode, guessed.knights.memory_mode) == (None, "Flat")
    assert "all-to-all and hemisphere look the same" in guessed.notes[-1]
    assert not any("hemisphere" in note for note in knights("SNC4", "Cache").notes)
    assert _describe(hwloc.topology(hwloc.core(0, 0))).knights is None


def test_infos_of_hwloc_3_stand_after_the_machine(hwloc) -> None:
    after = hwloc.info("hwlocVersion", "3.0.0") + hwloc.info("OSName", "Linux")
    description = _describe(hwloc.topology(hwloc.core(0, 0), after=after, version="3.0"))
    assert description.sources == ["all: m.xml, the XML of hwloc 3.0.0 (format 3.0)"]


def test_version_of_hwloc_is_told_where_it_is_known(hwloc) -> None:
    known = hwloc.topology(hwloc.info("hwlocVersion", "2.9.0"), hwloc.core(0, 0))
    assert _describe(known).sources == ["all: m.xml, the XML of hwloc 2.9.0 (format 2.0)"]
    old = hwloc.topology(hwloc.core(0, 0)).replace('<topology version="2.0">', "<topology>")
    assert _describe(old).sources == ["all: m.xml, the XML of hwloc (format 1)"]


def test_cpus_that_are_not_described_are_offline_or_were_not_allowed(hwloc) -> None:
    inside = (hwloc.node(0, [0, 1]), hwloc.core(0, 0, 1))
    description = _describe(hwloc.topology(*inside, complete_cpuset="0x00000013"))
    assert description.offline_cpus == (4,)
    assert any(note.startswith("cpus 4 are not described: they were") for note in description.notes)
    # hwloc 1.x tells both apart: cpu 4 was online, but not allowed.
    text = hwloc.topology(*inside, complete_cpuset="0x00000033", online_cpuset="0x00000013")
    assert _describe(text).offline_cpus == (5,)


def test_what_was_not_allowed_to_the_writer_is_kept_and_noted(hwloc) -> None:
    text = hwloc.topology(
        hwloc.node(0, [0]),
        hwloc.node(1, [1]),
        hwloc.core(0, 0),
        hwloc.core(1, 1),
        allowed_cpuset="0x00000001",
        allowed_nodeset="0x00000002",
        complete_nodeset="0x00000007",
    )
    description = _describe(text)
    assert sorted(description.threads) == [0, 1]
    assert description.notes[1:] == [
        "cpus 1 were not allowed to the process that ran hwloc",
        "NUMA nodes 0 were not allowed to the process that ran hwloc",
        "NUMA nodes 2 are mentioned but not described by hwloc",
    ]


def test_free_memory_is_noted_as_unknown_or_all_of_it_if_not_even_that_is_told(hwloc) -> None:
    told = _describe(hwloc.topology(hwloc.node(0, [0]), hwloc.core(0, 0)))
    assert told.notes == ["hwloc does not tell how much memory is free: all of it counts as free"]
    silent = _describe(hwloc.topology(hwloc.node(0, [0], local_memory=0), hwloc.core(0, 0)))
    assert silent.notes == ["hwloc does not tell how much memory NUMA node 0 has"]


def test_xml_of_something_else_is_refused() -> None:
    with pytest.raises(TopologyError, match="line 1: <topologydiff> has been found where hwloc's"):
        _describe("<topologydiff/>")


def test_file_that_ends_early_is_refused_with_line_and_column(hwloc) -> None:
    text = hwloc.topology(hwloc.core(0, 0))
    with pytest.raises(TopologyError, match=r"m\.xml is damaged at line \d+, column \d+: "):
        _describe(text[: len(text) // 2])


def test_knights_landing_of_2016_has_32_tiles_of_2_cores(shared_topologies: Path) -> None:
    file = shared_topologies / "hwloc/Intel-KnightsLanding-XeonPhi-7210.v2.xml"
    description = describe_hwloc_xml(file.read_text(), file.name)
    assert description.processor == Processor(
        "GenuineIntel", 6, 87, "Intel(R) Xeon Phi(TM) CPU 7210 @ 1.30GHz"
    )
    assert sorted(description.threads) == list(range(256))
    assert len(_cores(description)) == 64
    assert description.threads[130] == ThreadPlace(0, 24, "2,66,130,194")
    tiles = [cache for cache in description.caches if cache.level == 2]
    assert len(tiles) == 32
    assert tiles[1].cpus == (2, 3, 66, 67, 130, 131, 194, 195)
    assert tiles[1].size_bytes == MIB
    assert not [cache for cache in description.caches if cache.level == 3]
    assert list(description.nodes) == [0]
    assert description.nodes[0].memory_bytes == 0


def test_two_xeon_max_have_40_cores_and_one_l3_each(shared_topologies: Path) -> None:
    file = shared_topologies / "hwloc/Intel-SapphireRapids-2xXeonMax9460.v2.xml"
    description = describe_hwloc_xml(file.read_text(), file.name)
    assert (description.processor.model, len(description.threads)) == (143, 160)
    assert description.processor.name == "Intel (R) Xeon (R) CPU Max 9460"
    cores = _cores(description)
    assert (len(cores), {package for package, _ in cores}) == (80, {0, 1})
    assert (0, "0,80") in cores
    thirds = [cache for cache in description.caches if cache.level == 3]
    assert [len(cache.cpus) for cache in thirds] == [80, 80]
    assert thirds[0].cpus == (*range(40), *range(80, 120))


def test_hybrid_knights_landing_pairs_memories_out_of_order(shared_topologies: Path) -> None:
    file = shared_topologies / "hwloc/64intel64-fakeKNL-SNC4-hybrid.v2.xml"
    description = describe_hwloc_xml(file.read_text(), file.name)
    nodes = description.nodes
    assert list(nodes) == list(range(8))
    assert nodes[0].cpus == (0, 1, 2, 3, *range(16, 20), *range(32, 36), *range(48, 52))
    assert {node: nodes[node].initiators for node in range(4, 8)} == {
        4: (1,),
        5: (2,),
        6: (3,),
        7: (0,),
    }
    assert [nodes[node].told.kind for node in nodes] == 4 * ["dram"] + 4 * ["hbm"]
    assert [nodes[node].read_bandwidth for node in nodes] == 4 * [22_500] + 4 * [90_000]
    assert [len(nodes[node].side_caches) for node in nodes] == [1, 1, 1, 1, 0, 0, 0, 0]
    assert nodes[2].side_caches[0].size_bytes == 2 << 30
    assert description.knights == KnightsFirmware(
        "SNC4", "Hybrid50", 2 << 30, "hwloc's ClusterMode=SNC4 MemoryMode=Hybrid50"
    )
    assert len([cache for cache in description.caches if cache.level == 2]) == 8
    assert not [cache for cache in description.caches if cache.level == 3]
