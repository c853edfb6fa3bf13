from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from affinity.machine.description import Description, Kind, Processor, ToldKind
from affinity.machine.inference import conclude
from affinity.machine.memory_beside_cpus import kind_beside_cpus
from affinity.machine.processors import identify
from affinity.topology import SideCache

Describe = Callable[..., Description]

CACHE = SideCache(64 << 30, 64, "direct", "HMAT")


def _kind(description: Description, node: int = 0, has_hbm: bool = False) -> Kind:
    return kind_beside_cpus(description, identify(description), description.nodes[node], has_hbm)


@pytest.mark.parametrize("processor", ["xeon", "epyc", "phi", ""])
def test_memory_next_to_cpus_is_dram(describe: Describe, processor: str) -> None:
    kind = _kind(describe({0: 16}, processor=processor))
    assert kind == Kind("dram", "next to cpus, and nothing says that it is not DRAM")


def test_what_the_source_calls_it_counts(describe: Describe) -> None:
    description = describe({0: 16})
    description.nodes[0].told = ToldKind("hbm", "hwloc's subtype HBM")
    assert _kind(description) == Kind("hbm", "hwloc's subtype HBM")


def test_no_memory_is_of_no_kind(describe: Describe) -> None:
    assert _kind(describe({0: 0})) == Kind("unknown", "it has no memory, or none that is told")


def test_processor_with_nothing_but_hbm_has_hbm(describe: Describe) -> None:
    processor = Processor("AuthenticAMD", 25, 144, "AMD Instinct MI300A Accelerator")
    kind = _kind(describe({0: 128}, processor=processor))
    assert kind == Kind("hbm", "AMD Instinct MI300 has no memory but HBM3")


def test_xeon_max_with_no_more_memory_than_its_hbm_runs_on_hbm_alone(describe: Describe) -> None:
    clusters = dict.fromkeys(range(8), 15.7)
    kind = _kind(describe(clusters, processor="max", packages=2), node=7)
    assert kind.kind == "hbm"
    assert "62.8 GiB per package, no more than the 64.0 GiB of its HBM" in kind.evidence
    assert "hypervisor" not in kind.evidence


def test_doubt_is_said_where_a_hypervisor_may_hide_memory(describe: Describe) -> None:
    description = describe({0: 32}, processor="max")
    description.processor = replace(description.processor, flags=("hypervisor",))
    kind = _kind(description)
    assert kind.kind == "hbm"
    assert kind.evidence.endswith("unless the hypervisor hides some of it")


def test_xeon_max_with_more_memory_than_its_hbm_shows_dram(describe: Describe) -> None:
    kind = _kind(describe({0: 256, 1: 256}, processor="max", packages=2))
    assert kind.kind == "dram"
    assert "256.0 GiB per package are more than 64.0 GiB" in kind.evidence


def test_clusters_of_a_package_count_together(describe: Describe) -> None:
    # 32 GiB each, but four of them in the package.
    assert _kind(describe(dict.fromkeys(range(4), 32), processor="max")).kind == "dram"


def test_xeon_max_behind_hbm_caches_shows_dram(describe: Describe) -> None:
    description = describe({0: 48}, processor="max")
    description.nodes[0].side_caches = (CACHE,)
    assert _kind(description) == Kind("dram", "next to cpus, and HBM is its memory-side cache")


def test_xeon_max_whose_hbm_is_offline_shows_dram(describe: Describe) -> None:
    description = describe({0: 48}, processor="max")
    description.notes = ["64.0 GiB of soft-reserved memory (such as HBM) is present but offline"]
    kind = _kind(description)
    assert kind.kind == "dram"
    assert "64.0 GiB of soft-reserved memory" in kind.evidence


@pytest.mark.parametrize(
    ("installed", "kind", "evidence"),
    [
        (("HBM2",), "hbm", "SMBIOS lists no memory but HBM"),
        (("DDR5", "HBM2"), "dram", "next to cpus, and SMBIOS lists DDR5 and HBM2"),
        (("DDR5",), "dram", "SMBIOS lists only DDR5"),
    ],
)
def test_smbios_tells_for_certain_what_xeon_max_has(
    describe: Describe, installed: tuple[str, ...], kind: str, evidence: str
) -> None:
    description = describe({0: 48}, processor="max")
    description.installed = installed
    found = _kind(description)
    assert (found.kind, found.evidence) == (kind, evidence)


def test_side_cache_of_a_xeon_without_hbm_is_dram_before_persistent_memory(
    describe: Describe,
) -> None:
    description = describe({0: 384})
    description.nodes[0].side_caches = (CACHE,)
    kind = _kind(description)
    assert kind.kind == "dram"
    assert "persistent memory cached by DRAM" in kind.evidence


def test_side_cache_of_an_unknown_processor_tells_nothing_more(describe: Describe) -> None:
    description = describe({0: 384}, processor="")
    description.nodes[0].side_caches = (CACHE,)
    kind = _kind(description)
    assert kind.kind == "dram"
    assert "persistent" not in kind.evidence


def test_memory_set_aside_that_is_far_faster_is_hbm_although_it_has_cpus(
    describe: Describe,
) -> None:
    description = describe({0: 3, 1: 1, 2: 0.5})
    for node, bandwidth in ((0, 1000), (1, 1000), (2, 10_000)):
        description.nodes[node].read_bandwidth = bandwidth
        description.nodes[node].performance_source = "HMAT"
    assert [node.kind for node in conclude(description).numa_nodes] == ["dram"] * 3
    description.nodes[2].dax = "soft-reserved"
    topology = conclude(description)
    assert [node.kind for node in topology.numa_nodes] == ["dram", "dram", "hbm"]
    assert "HMAT gives it 10.0 times the bandwidth" in topology.node(2).evidence
    description.nodes[2].read_bandwidth = 2000
    assert conclude(description).node(2).kind == "dram"
