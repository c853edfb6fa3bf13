from __future__ import annotations

from collections.abc import Callable

import pytest

from affinity.machine.description import Description, KnightsFirmware
from affinity.machine.inference import conclude
from affinity.topology import Modes, SideCache, Topology

Describe = Callable[..., Description]

GIB = 1 << 30


def _concluded(description: Description) -> tuple[Modes, Topology]:
    topology = conclude(description)
    assert topology.modes is not None
    return topology.modes, topology


@pytest.mark.parametrize(
    ("told", "cluster"),
    [
        ("All2All", "all-to-all"),
        ("Hemisphere", "hemisphere"),
        ("Quadrant", "quadrant"),
        ("SNC2", "SNC-2"),
        ("SNC4", "SNC-4"),
    ],
)
def test_smbios_tells_all_cluster_modes(describe: Describe, told: str, cluster: str) -> None:
    description = describe({0: 96}, processor="phi")
    description.knights = KnightsFirmware(told, "Cache", 16 * GIB, "SMBIOS")
    modes, topology = _concluded(description)
    assert (modes.cluster, modes.memory) == (cluster, "cache")
    assert topology.numa_nodes[0].side_caches == (SideCache(16 * GIB, 64, "direct", "SMBIOS"),)


def test_contradictions_with_smbios_are_said(describe: Describe) -> None:
    description = describe({0: 96}, processor="phi")
    description.knights = KnightsFirmware("SNC4", "Flat", 0, "SMBIOS")
    modes, _ = _concluded(description)
    assert modes.cluster_evidence == "SMBIOS, although nodes with cpus: 1"
    assert modes.memory_evidence == "SMBIOS, although no node is of MCDRAM: it may be offline"


def test_mcdram_of_untold_size_is_no_contradiction_to_smbios(describe: Describe) -> None:
    description = describe({0: 96}, {1: 0}, processor="phi")
    description.nodes[1].size_told = False
    assert _concluded(description)[0].memory == "flat"
    description.knights = KnightsFirmware("Quadrant", "Flat", 0, "SMBIOS")
    assert _concluded(description)[0].memory_evidence == "SMBIOS"


def test_smbios_that_agrees_is_evidence_enough(describe: Describe) -> None:
    description = describe({0: 48, 1: 48}, {2: 4, 3: 4}, processor="phi")
    description.knights = KnightsFirmware("SNC2", "Hybrid50", 4 * GIB, "SMBIOS")
    modes, topology = _concluded(description)
    assert modes == Modes("SNC-2", "SMBIOS", "hybrid 50 %", "SMBIOS")
    sizes = [[cache.size_bytes for cache in node.side_caches] for node in topology.numa_nodes]
    assert sizes == [[4 * GIB], [4 * GIB], [], []]


@pytest.mark.parametrize(
    ("nodes", "cluster"),
    [
        (1, "all-to-all, hemisphere or quadrant"),
        (2, "SNC-2"),
        (4, "SNC-4"),
        (3, "unknown"),
    ],
)
def test_without_smbios_the_nodes_are_counted(describe: Describe, nodes: int, cluster: str) -> None:
    modes, _ = _concluded(describe(dict.fromkeys(range(nodes), 24), processor="phi"))
    assert modes.cluster == cluster


def test_a_cluster_whose_cpus_are_offline_counts_too(describe: Describe) -> None:
    description = describe({0: 24, 1: 24, 2: 24}, {3: 24}, processor="phi")
    description.nodes[3].offline_cpus = (6, 7)
    description.offline_cpus = (6, 7)
    modes, topology = _concluded(description)
    assert modes.cluster == "SNC-4"
    assert topology.node(3).kind == "dram"


@pytest.mark.parametrize(
    ("mcdram", "memory", "cache"),
    [
        (4.0, "flat", 0),
        (3.95, "flat", 0),
        (3.0, "hybrid 25 %", GIB),
        (2.0, "hybrid 50 %", 2 * GIB),
        (1.98, "hybrid 50 %", 2 * GIB),
    ],
)
def test_what_is_missing_of_mcdram_is_a_cache(
    describe: Describe, mcdram: float, memory: str, cache: int
) -> None:
    own, away = dict.fromkeys(range(4), 24), dict.fromkeys(range(4, 8), mcdram)
    modes, topology = _concluded(describe(own, away, processor="phi"))
    assert modes.memory == memory
    sizes = [sum(c.size_bytes for c in node.side_caches) for node in topology.numa_nodes]
    assert sizes == [cache] * 4 + [0] * 4


def test_sizes_of_no_known_mode_leave_a_doubt(describe: Describe) -> None:
    modes, _ = _concluded(describe({0: 2}, {1: 0.5}, processor="phi"))
    assert modes.memory == "flat"
    assert modes.memory_evidence == (
        "nodes of MCDRAM hold 512.0 MiB of the 16.0 GiB of a Xeon Phi: no mode leaves as much, so "
        "hybrid cannot be ruled out"
    )


def test_without_nodes_of_mcdram_it_is_a_cache_shared_by_the_clusters(describe: Describe) -> None:
    modes, topology = _concluded(describe(dict.fromkeys(range(4), 24), processor="phi"))
    assert modes.memory == "cache"
    assert "assumed from the processor" in modes.memory_evidence
    assert [c.size_bytes for node in topology.numa_nodes for c in node.side_caches] == [4 * GIB] * 4


def test_told_side_caches_are_kept(describe: Describe) -> None:
    description = describe({0: 2}, processor="phi")
    description.nodes[0].side_caches = (SideCache(GIB, 64, "direct", "HMAT table"),)
    modes, topology = _concluded(description)
    assert (modes.memory, modes.memory_evidence) == ("cache", "memory-side cache: HMAT table")
    assert topology.numa_nodes[0].side_caches[0].size_bytes == GIB


@pytest.mark.parametrize(
    ("away", "cache", "memory"),
    [
        ({}, 16, "cache"),
        ({1: 12}, 4, "hybrid 25 %"),
        ({1: 8}, 8, "hybrid 50 %"),
    ],
)
def test_an_old_dump_without_modes_tells_by_the_size_of_its_cache(
    describe: Describe, away: dict[int, float], cache: int, memory: str
) -> None:
    description = describe({0: 96}, away, processor="phi")
    description.knights = KnightsFirmware(None, None, cache * GIB, "old dump")
    modes, topology = _concluded(description)
    assert modes.memory == memory
    assert modes.memory_evidence.startswith("old dump")
    assert sum(c.size_bytes for c in topology.numa_nodes[0].side_caches) == cache * GIB


def test_a_source_without_modes_or_cache_leaves_it_to_the_nodes(describe: Describe) -> None:
    for mcdram, memory in ((16, "flat"), (12, "hybrid 25 %"), (0, "cache")):
        description = describe({0: 96}, {1: mcdram}, processor="phi")
        description.knights = KnightsFirmware("Quadrant", None, 0, "hwloc")
        modes, _ = _concluded(description)
        assert (modes.cluster, modes.memory) == ("quadrant", memory)


@pytest.mark.parametrize(
    ("memory_mode", "cache"), [("Cache", 8), ("Hybrid25", 2), ("Hybrid50", 4), ("Flat", 0)]
)
def test_a_mode_told_without_the_size_of_its_cache_has_that_of_the_processor(
    describe: Describe, memory_mode: str, cache: int
) -> None:
    description = describe({0: 48, 1: 48}, processor="phi")
    description.knights = KnightsFirmware("SNC2", memory_mode, 0, "hwloc")
    modes, topology = _concluded(description)
    assert ("assumed from the processor" in modes.memory_evidence) is (cache > 0)
    sizes = [sum(c.size_bytes for c in node.side_caches) for node in topology.numa_nodes]
    assert sizes == [cache * GIB] * 2


def test_memory_too_large_for_mcdram_leaves_the_mode_unknown(describe: Describe) -> None:
    modes, _ = _concluded(describe({0: 96}, {1: 32}, processor="phi"))
    assert modes.memory == "unknown"


def test_nothing_is_concluded_where_no_memory_is_told(describe: Describe) -> None:
    modes, _ = _concluded(describe({0: 0}, processor="phi"))
    assert (modes.cluster, modes.memory) == ("unknown", "unknown")


def test_cache_is_assumed_unless_its_size_is_told(describe: Describe) -> None:
    def assumed(description: Description) -> bool:
        _, topology = _concluded(description)
        return topology.numa_nodes[0].side_caches[0].assumed

    told, half_told = (describe({0: 96}, processor="phi") for _ in range(2))
    told.knights = KnightsFirmware("Quadrant", "Cache", 16 * GIB, "SMBIOS")
    half_told.knights = KnightsFirmware("Quadrant", "Cache", 0, "hwloc")
    assert assumed(describe({0: 96}, processor="phi"))
    assert assumed(describe({0: 96}, {1: 8}, processor="phi"))
    assert assumed(half_told)
    assert not assumed(told)
