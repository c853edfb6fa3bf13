from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from affinity.machine.description import Description, Processor, ThreadPlace
from affinity.machine.inference import conclude
from affinity.machine.memory_kind import HbmWord
from affinity.topology import Cache, Modes, SideCache

Describe = Callable[..., Description]

CACHE = SideCache(64 << 30, 64, "direct", "HMAT table")


def _modes(description: Description, *words: HbmWord) -> Modes:
    modes = conclude(description, words).modes
    assert modes is not None
    return modes


@pytest.mark.parametrize(
    ("processor", "nodes", "packages", "cluster"),
    [
        ("xeon", 1, 1, "one node"),
        ("xeon", 2, 2, "one node per package"),
        ("xeon", 4, 2, "SNC-2"),
        ("xeon", 6, 2, "SNC-3"),
        ("max", 1, 1, "quadrant"),
        ("max", 2, 2, "quadrant"),
        ("max", 8, 2, "SNC-4"),
        ("max", 8, 1, "unknown"),
        ("epyc", 1, 1, "one node"),
        ("epyc", 2, 2, "NPS-1"),
        ("epyc", 4, 2, "NPS-2"),
        ("epyc", 8, 2, "NPS-4"),
        ("", 4, 2, "2 nodes per package"),
    ],
)
def test_clusters_are_counted_in_the_words_of_the_vendor(
    describe: Describe, processor: str, nodes: int, packages: int, cluster: str
) -> None:
    own = dict.fromkeys(range(nodes), 128)
    modes = _modes(describe(own, processor=processor, packages=packages))
    assert modes.cluster == cluster


def test_evidence_of_clusters_is_what_was_counted(describe: Describe) -> None:
    modes = _modes(describe(dict.fromkeys(range(4), 128), packages=2))
    assert modes.cluster_evidence == "2 nodes with cpus in each of 2 packages"


def test_epyc_with_a_node_for_each_l3_says_so(describe: Describe) -> None:
    description = describe(dict.fromkeys(range(8), 32), processor="epyc")
    description.caches = [
        Cache(3, "unified", 32 << 20, 64, facts.cpus) for facts in description.nodes.values()
    ]
    assert _modes(description).cluster == "L3 as NUMA"


@pytest.mark.parametrize(
    ("processor", "cluster"), [("epyc", "NPS-0"), ("xeon", "one node over 2 packages")]
)
def test_one_node_over_two_packages_is_interleaved(
    describe: Describe, processor: str, cluster: str
) -> None:
    description = describe({0: 512}, processor=processor)
    description.threads[1] = ThreadPlace(1, 1)
    assert _modes(description).cluster == cluster


def test_virtual_machine_is_not_said_to_have_amds_modes(describe: Describe) -> None:
    processor = Processor("AuthenticAMD", 25, 1, "AMD EPYC 7763", ("hypervisor",))
    modes = _modes(describe({0: 8, 1: 8}, processor=processor, packages=2))
    assert modes.cluster == "one node per package"
    assert modes.cluster_evidence.endswith("as the hypervisor shows them")


def test_virtual_machine_is_not_said_to_have_intels_clusters(describe: Describe) -> None:
    processor = Processor("GenuineIntel", 6, 85, "Xeon", ("hypervisor",))
    assert _modes(describe({0: 8, 1: 8}, processor=processor)).cluster == "2 nodes per package"


def test_uneven_packages_are_said(describe: Describe) -> None:
    modes = _modes(describe(dict.fromkeys(range(3), 64), packages=2))
    assert (modes.cluster, modes.cluster_evidence) == (
        "1 to 2 nodes per package",
        "per package: 2, 1",
    )


def test_nodes_say_nothing_where_no_memory_is_told(describe: Describe) -> None:
    modes = _modes(describe({0: 0}, processor="max"))
    assert (modes.cluster, modes.memory) == ("unknown", "unknown")


def test_machine_with_dram_alone(describe: Describe) -> None:
    assert _modes(describe({0: 64, 1: 64})).memory == "DRAM only"


def test_hbm_apart_is_flat_mode(describe: Describe) -> None:
    modes = _modes(describe({0: 512}, {1: 64}, processor="max"))
    assert (modes.memory, modes.memory_evidence) == (
        "flat",
        "HBM is memory of its own, at NUMA node 1",
    )


def test_hbm_that_the_user_names_is_flat_mode(describe: Describe) -> None:
    assert _modes(describe({0: 512}, {1: 64}), HbmWord(1)).memory == "flat"


def test_side_caches_of_xeon_max_are_cache_mode(describe: Describe) -> None:
    description = describe({0: 512}, processor="max")
    description.nodes[0].side_caches = (CACHE,)
    modes = _modes(description)
    assert modes.memory == "cache"
    assert modes.memory_evidence == "memory-side caches of 64.0 GiB (HMAT table): HBM caches DRAM"


def test_side_caches_of_other_xeons_are_optane(describe: Describe) -> None:
    description = describe({0: 512})
    description.nodes[0].side_caches = (CACHE,)
    modes = _modes(description)
    assert modes.memory == "cache"
    assert modes.memory_evidence.endswith("DRAM caches persistent memory (Optane)")


def test_side_caches_of_xeons_after_optane_are_of_unknown_make(describe: Describe) -> None:
    processor = Processor("GenuineIntel", 6, 173, "Intel(R) Xeon(R) 6980P")
    description = describe({0: 512}, processor=processor)
    description.nodes[0].side_caches = (CACHE,)
    assert _modes(description).memory_evidence.endswith("what they are made of is not told")


def test_side_caches_in_a_virtual_machine_are_of_unknown_make(describe: Describe) -> None:
    processor = Processor("AuthenticAMD", 15, 107, "QEMU TCG CPU version 2.5+", ("hypervisor",))
    description = describe({0: 4}, processor=processor)
    description.nodes[0].side_caches = (replace(CACHE, size_bytes=1 << 16),)
    modes = _modes(description)
    assert modes.memory == "cache"
    assert modes.memory_evidence == (
        "memory-side caches of 64.0 KiB (HMAT table); what they are made of is not told"
    )


def test_side_caches_beside_hbm_are_hybrid_mode(describe: Describe) -> None:
    description = describe({0: 512}, {1: 32}, processor="max")
    description.nodes[0].side_caches = (CACHE,)
    assert _modes(description).memory == "hybrid"


def test_xeon_max_with_its_hbm_alone(describe: Describe) -> None:
    modes = _modes(describe(dict.fromkeys(range(8), 16), processor="max", packages=2))
    assert (modes.cluster, modes.memory) == ("SNC-4", "HBM only")


def test_xeon_max_that_shows_only_dram_has_two_explanations(describe: Describe) -> None:
    modes = _modes(describe({0: 512, 1: 512}, processor="max", packages=2))
    assert modes.memory == "cache or flat with HBM offline; cannot be told"


def test_memory_of_unknown_kind_on_xeon_max_may_be_its_hbm(describe: Describe) -> None:
    description = describe({0: 512}, {2: 64}, processor="max")
    description.nodes[0].read_bandwidth = description.nodes[2].read_bandwidth = 300_000
    modes = _modes(description)
    assert modes.memory == "flat, cache or flat with HBM offline; cannot be told"
    assert modes.memory_evidence == (
        "a Xeon Max with memory of unknown kind at NUMA node 2: it is flat if that is HBM (--hbm "
        "2), as nothing else is, nor is there a memory-side cache"
    )
    description.nodes[2].read_bandwidth = 30_000
    assert _modes(description).memory == "cache or flat with HBM offline; cannot be told"


@pytest.mark.parametrize(("dax", "what"), [("cxl", "CXL"), (None, "memory of unknown kind")])
def test_other_memory_beside_a_xeon_max_without_dram_is_told_apart(
    describe: Describe, dax: str | None, what: str
) -> None:
    description = describe({0: 64}, {1: 128}, processor="max")
    description.nodes[1].dax = dax
    modes = _modes(description)
    assert modes.memory == "HBM only"
    assert modes.memory_evidence == (
        "a Xeon Max with 64.0 GiB per package, no more than the 64.0 GiB of its HBM, no other HBM "
        f"and no memory-side cache: HBM is all next to its cpus; besides, {what} at NUMA node 1"
    )


def test_dram_without_cpus_beside_hbm_is_not_hbm_only(describe: Describe) -> None:
    description = describe({0: 64}, {1: 128}, processor="max")
    description.nodes[1].offline_cpus = (8, 9)
    assert _modes(description).memory == "flat"


def test_offline_hbm_tells_flat_from_cache(describe: Describe) -> None:
    description = describe({0: 512}, processor="max")
    description.notes = ["64.0 GiB of soft-reserved memory (such as HBM) is present but offline"]
    modes = _modes(description)
    assert modes.memory == "flat, with HBM offline"
    assert modes.memory_evidence.startswith("64.0 GiB of soft-reserved memory")


def test_other_memories_are_listed(describe: Describe) -> None:
    description = describe({0: 512}, {1: 256, 2: 128, 3: 64})
    description.nodes[1].dax = "cxl"
    description.nodes[2].dax = "pmem"
    assert _modes(description).memory == (
        "DRAM and CXL and persistent memory and memory of unknown kind"
    )
