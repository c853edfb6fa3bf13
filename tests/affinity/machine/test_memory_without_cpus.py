from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from affinity.machine.description import Description, Kind, ToldKind
from affinity.machine.locality import locality
from affinity.machine.memory_without_cpus import kind_without_cpus
from affinity.machine.processors import identify

Describe = Callable[..., Description]


def _kind(description: Description, node: int = 2) -> Kind:
    facts, near = description.nodes[node], locality(description, node)
    return kind_without_cpus(description, identify(description), facts, near)


@pytest.fixture
def flat(describe: Describe) -> Description:
    """Two packages with 512 GiB of 100 GB/s each; nodes 2 and 3 are 64 GiB without cpus."""
    rows = [[10, 21, 14, 24], [21, 10, 24, 14], [14, 24, 10, 24], [24, 14, 24, 10]]
    description = describe({0: 512, 1: 512}, {2: 64, 3: 64}, rows=rows, packages=2)
    for node in (0, 1):
        description.nodes[node].read_bandwidth = 100_000
    return description


@pytest.mark.parametrize("kind", ["dram", "hbm", "cxl", "pmem", "gpu"])
def test_what_the_source_calls_it_counts(flat: Description, kind: str) -> None:
    flat.nodes[2].told = ToldKind(kind, "hwloc's subtype")  # type: ignore[arg-type]
    flat.nodes[2].read_bandwidth = 400_000
    assert _kind(flat) == Kind(kind, "hwloc's subtype")  # type: ignore[arg-type]


def test_a_node_with_neither_cpus_nor_memory_is_of_no_kind(describe: Describe) -> None:
    kind = _kind(describe({0: 96}, {2: 0}, processor="phi"))
    assert kind == Kind("unknown", "it has neither cpus nor memory")


@pytest.mark.parametrize("dax", ["pmem", "cxl"])
def test_the_device_counts_before_any_bandwidth(flat: Description, dax: str) -> None:
    # Interleaved CXL devices are faster than one cluster's share of DRAM.
    flat.nodes[2].dax, flat.nodes[2].read_bandwidth = dax, 300_000
    assert _kind(flat).kind == dax


def test_memory_without_cpus_on_xeon_phi_is_mcdram(describe: Describe) -> None:
    kind = _kind(describe({0: 96}, {2: 16}, processor="phi"))
    assert kind == Kind(
        "hbm",
        "memory without cpus on Xeon Phi is MCDRAM: model 87 of Intel's family 6 is Knights "
        "Landing",
    )


def test_more_than_all_mcdram_is_not_mcdram(describe: Describe) -> None:
    assert _kind(describe({0: 96}, {2: 24}, processor="phi")).kind == "unknown"


def test_more_than_twice_the_bandwidth_of_its_cpus_dram_is_hbm(flat: Description) -> None:
    flat.nodes[3].read_bandwidth = 270_000
    flat.nodes[3].performance_source = "HMAT table"
    kind = _kind(flat, 3)
    assert kind.kind == "hbm"
    assert kind.evidence == (
        "HMAT table gives it 2.7 times the bandwidth of its cpus' own memory "
        "(270000 to 100000 MB/s)"
    )


@pytest.mark.parametrize("scale", [1, 100])
def test_bandwidth_counts_only_against_the_dram_of_the_same_cpus(
    flat: Description, scale: int
) -> None:
    # The other package's DRAM is slower than this memory by far; its own is not.
    flat.nodes[0].read_bandwidth = 4000 * scale
    flat.nodes[1].read_bandwidth = 500 * scale
    flat.nodes[2].read_bandwidth = 4400 * scale
    assert _kind(flat).kind == "unknown"
    flat.nodes[3].read_bandwidth = 1100 * scale
    assert _kind(flat, 3).kind == "hbm"


def test_write_bandwidths_are_compared_if_read_ones_are_missing(flat: Description) -> None:
    flat.nodes[0].read_bandwidth, flat.nodes[0].write_bandwidth = None, 90_000
    flat.nodes[2].read_bandwidth, flat.nodes[2].write_bandwidth = 100, 360_000
    kind = _kind(flat)
    assert kind.kind == "hbm"
    assert "4.0 times" in kind.evidence


@pytest.mark.parametrize("bandwidth", [120_000, 150_000])
def test_a_little_faster_is_too_little_for_hbm(flat: Description, bandwidth: int) -> None:
    flat.nodes[2].read_bandwidth = bandwidth
    kind = _kind(flat)
    assert kind.kind == "unknown"
    assert kind.evidence.endswith("too little to call it HBM; if it is HBM, say --hbm 2")
    assert kind.not_hbm is False


def test_slower_memory_is_unknown_and_said_to_be_slower(flat: Description) -> None:
    flat.nodes[2].read_bandwidth = 30_000
    kind = _kind(flat)
    assert kind.kind == "unknown"
    assert "0.3 times" in kind.evidence
    assert kind.evidence.endswith("slower than DRAM")
    assert kind.not_hbm is True


def _starve(flat: Description, dram_gib: int, gib: int, tier: int) -> Kind:
    """The kind of memory with 2.5 times the bandwidth of so little DRAM."""
    flat.nodes[0].memory_bytes, flat.nodes[0].tier = dram_gib << 30, 4
    flat.nodes[2].memory_bytes, flat.nodes[2].tier = gib << 30, tier
    flat.nodes[2].read_bandwidth = 250_000
    return _kind(flat)


def test_much_more_memory_than_dram_in_a_slower_tier_is_no_hbm_for_sure(flat: Description) -> None:
    assert _starve(flat, 64, 512, 22) == Kind(
        "unknown",
        "HMAT gives it 2.5 times the bandwidth of its cpus' own memory (250000 to 100000 MB/s), "
        "but with 512.0 GiB beside 64.0 GiB of DRAM, and in a slower memory tier, it may be CXL; "
        "if it is HBM, say --hbm 2",
    )


@pytest.mark.parametrize(("dram_gib", "gib", "tier"), [(64, 512, 4), (64, 128, 22), (64, 64, 22)])
def test_size_or_tier_alone_does_not_outweigh_the_bandwidth(
    flat: Description, dram_gib: int, gib: int, tier: int
) -> None:
    assert _starve(flat, dram_gib, gib, tier).kind == "hbm"


@pytest.mark.parametrize(("gib", "kind"), [(64, "hbm"), (65, "unknown")])
def test_xeon_max_may_have_much_more_hbm_than_dram(describe: Describe, gib: int, kind: str) -> None:
    description = describe({0: 16}, {2: gib}, processor="max")
    description.nodes[0].read_bandwidth = 100_000
    assert _starve(description, 16, gib, 22).kind == kind


def test_up_to_twice_as_fast_is_hbm_if_smaller_than_the_dram(flat: Description) -> None:
    flat.nodes[2].read_bandwidth = 185_000
    kind = _kind(flat)
    assert kind.kind == "hbm"
    assert "less than twice" in kind.evidence
    flat.nodes[2].memory_bytes = flat.nodes[0].memory_bytes
    assert _kind(flat).kind == "unknown"


def test_up_to_twice_as_fast_is_not_hbm_in_a_slower_tier(flat: Description) -> None:
    flat.nodes[2].read_bandwidth = 185_000
    flat.nodes[0].tier, flat.nodes[2].tier = 4, 5
    assert _kind(flat).kind == "unknown"
    # The kernel puts all memory behind dax there unless it knows better.
    flat.nodes[2].dax = "soft-reserved"
    assert _kind(flat).kind == "hbm"


def test_a_little_faster_is_hbm_in_a_faster_tier(flat: Description) -> None:
    flat.nodes[2].read_bandwidth = 130_000
    flat.nodes[0].tier, flat.nodes[2].tier = 4, 3
    kind = _kind(flat)
    assert kind.kind == "hbm"
    assert "faster memory tier" in kind.evidence


def test_a_slower_bandwidth_counts_before_a_faster_tier(flat: Description) -> None:
    flat.nodes[2].read_bandwidth = 90_000
    flat.nodes[0].tier, flat.nodes[2].tier = 4, 1
    assert _kind(flat).kind == "unknown"


def test_the_tier_alone_tells_hbm(flat: Description) -> None:
    flat.nodes[0].tier, flat.nodes[2].tier = 4, 1
    assert _kind(flat) == Kind(
        "hbm",
        "the kernel puts it in memory tier 1, and its cpus' own memory in 4: lower is faster",
    )


@pytest.mark.parametrize(("tier", "words"), [(4, "is that of DRAM"), (5, "is slower than that")])
def test_the_same_or_a_slower_tier_tells_nothing(flat: Description, tier: int, words: str) -> None:
    flat.nodes[0].tier, flat.nodes[2].tier = 4, tier
    kind = _kind(flat)
    assert kind.kind == "unknown"
    assert words in kind.evidence


def test_zeros_are_no_bandwidths(flat: Description) -> None:
    flat.nodes[2].zero_performance = True
    kind = _kind(flat)
    assert kind.kind == "unknown"
    assert "zeros, which means not given" in kind.evidence
    assert kind.evidence.endswith("if it is HBM, say --hbm 2")


def test_fast_memory_next_to_dram_of_unknown_speed_is_unknown(flat: Description) -> None:
    flat.nodes[0].read_bandwidth = None
    flat.nodes[2].read_bandwidth = 900_000
    kind = _kind(flat)
    assert kind.kind == "unknown"
    assert "bandwidth of its cpus' own memory to compare with is not given" in kind.evidence


def test_name_of_xeon_max_tells_hbm_where_no_bandwidth_does(describe: Describe) -> None:
    description = describe({0: 512}, {2: 64}, processor="max")
    kind = _kind(description)
    assert kind.kind == "hbm"
    assert "named 'Intel(R) Xeon(R) CPU Max 9480'" in kind.evidence


def test_soft_reserved_memory_of_xeon_max_is_hbm_in_any_tier(describe: Describe) -> None:
    description = describe({0: 512}, {2: 64}, processor="max")
    description.nodes[0].tier, description.nodes[2].tier = 4, 22
    assert _kind(description).kind == "unknown"
    description.nodes[2].dax = "soft-reserved"
    assert _kind(description).kind == "hbm"


def test_name_of_xeon_max_does_not_outweigh_a_low_bandwidth(describe: Describe) -> None:
    description = describe({0: 512}, {2: 64}, processor="max")
    description.nodes[0].read_bandwidth = 260_000
    description.nodes[2].read_bandwidth = 50_000
    assert _kind(description).kind == "unknown"


@pytest.mark.parametrize(("bandwidth", "kind"), [(346_000, "hbm"), (260_000, "unknown")])
def test_name_of_xeon_max_decides_where_the_firmware_gives_it_little_more(
    describe: Describe, bandwidth: int, kind: str
) -> None:
    description = describe({0: 512}, {2: 64}, processor="max")
    description.nodes[0].read_bandwidth = 260_000
    description.nodes[2].read_bandwidth = bandwidth
    found = _kind(description)
    assert (found.kind, found.not_hbm) == (kind, False)
    if kind == "hbm":
        assert found.evidence == (
            "memory without cpus on Xeon Max is HBM: the processor is named 'Intel(R) Xeon(R) CPU "
            "Max 9480'; HMAT gives it 1.3 times the bandwidth of its cpus' own memory (346000 to "
            "260000 MB/s)"
        )


def test_name_of_xeon_max_does_not_decide_of_more_than_its_hbm(describe: Describe) -> None:
    description = describe({0: 512}, {2: 65}, processor="max")
    description.nodes[0].read_bandwidth = 260_000
    description.nodes[2].read_bandwidth = 346_000
    assert _kind(description).kind == "unknown"


def test_memory_whose_size_is_not_told_is_weighed_like_any_other(describe: Describe) -> None:
    description = describe({0: 96}, {2: 0}, processor="phi")
    description.nodes[2].size_told = False
    kind = _kind(description)
    assert kind.kind == "hbm"
    assert kind.evidence.endswith("is Knights Landing (its size is not told)")
    other = describe({0: 96}, {2: 0})
    other.nodes[2].size_told = False
    other.nodes[0].read_bandwidth, other.nodes[2].read_bandwidth = 100_000, 185_000
    assert _kind(other).kind == "unknown"  # Nothing tells that it is the smaller of both.


def test_xeon_max_has_no_more_than_64_gib_of_hbm(describe: Describe) -> None:
    assert _kind(describe({0: 512}, {2: 128}, processor="max")).kind == "unknown"


def test_soft_reserved_memory_of_other_processors_is_unknown(describe: Describe) -> None:
    description = describe({0: 512}, {2: 64}, processor="xeon")
    description.nodes[2].dax = "soft-reserved"
    kind = _kind(description)
    assert kind.kind == "unknown"
    assert "the firmware sets it aside (HBM or CXL)" in kind.evidence


def test_distances_of_xeon_phi_are_weak_evidence(describe: Describe) -> None:
    description = describe({0: 96}, {2: 16}, processor="", rows=[[10, 31], [31, 10]])
    assert _kind(description).kind == "hbm"
    description.nodes[0].read_bandwidth = 100_000
    description.nodes[2].read_bandwidth = 50_000
    assert _kind(description).kind == "unknown"


KNL_SNC2 = [[10, 21, 31, 41], [21, 10, 41, 31], [31, 41, 10, 41], [41, 31, 41, 10]]


def test_dram_of_xeon_phi_whose_cpus_are_offline_is_not_mcdram(describe: Describe) -> None:
    # Of three clusters, the cpus of node 9 are all off: only its distances show what it is.
    rows = [[10, 21, 31, 21], [21, 10, 41, 21], [31, 41, 10, 41], [21, 21, 41, 10]]
    description = describe({0: 8, 1: 8}, {2: 4, 9: 8}, rows=rows, processor="phi")
    description.offline_cpus = (4, 5)
    assert _kind(description, 2).kind == "hbm"
    kind = _kind(description, 9)
    assert kind.kind == "dram"
    assert "those that are offline (4-5)" in kind.evidence


def test_mcdram_stays_hbm_while_some_cpus_are_offline(describe: Describe) -> None:
    description = describe({0: 8, 1: 8}, {2: 4, 3: 4}, rows=KNL_SNC2, processor="phi")
    description.offline_cpus = (7,)
    assert (_kind(description, 2).kind, _kind(description, 3).kind) == ("hbm", "hbm")


def test_made_up_distances_do_not_turn_mcdram_into_dram(describe: Describe) -> None:
    rows = [[10, 20, 20], [20, 10, 20], [20, 20, 10]]
    description = describe({0: 8, 1: 8}, {2: 4}, rows=rows, processor="phi")
    description.offline_cpus = (7,)
    assert _kind(description).kind == "hbm"


def test_memory_beside_offline_cpus_is_dram(flat: Description) -> None:
    flat.nodes[2].offline_cpus = (8, 9)
    assert _kind(flat) == Kind("dram", "its cpus 8-9 are offline")


def test_memory_as_fast_as_dram_is_dram_if_cpus_are_offline(flat: Description) -> None:
    flat.nodes[2].read_bandwidth = 105_000
    assert _kind(flat).kind == "unknown"
    flat.offline_cpus = (4,)
    assert _kind(flat).kind == "dram"


def test_offline_cpus_are_a_reason_for_doubt(describe: Describe) -> None:
    description = describe({0: 8}, {2: 8})
    description.offline_cpus = (2, 3)
    kind = _kind(description)
    assert kind.kind == "unknown"
    assert "it may be DRAM whose cpus are offline" in kind.evidence


@pytest.mark.parametrize(
    ("bandwidth", "told"),
    [
        (199_900, "1.9 times .*: less than twice"),
        (200_000, "2.0 times .*: no more than twice"),
        (200_100, r"2.0 times .*\(200100 to 100000 MB/s\)$"),
    ],
)
def test_ratio_is_not_rounded_to_what_it_is_held_against(
    flat: Description, bandwidth: int, told: str
) -> None:
    flat.nodes[2].read_bandwidth = bandwidth
    kind = _kind(flat)
    assert kind.kind == "hbm"
    assert re.search(told, kind.evidence)
