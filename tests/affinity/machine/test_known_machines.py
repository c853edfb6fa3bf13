"""Machines as a person would check them: those that others described, and ones made up here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from affinity.errors import TopologyError
from affinity.machine.memory_kind import parse_hbm
from affinity.machine.read import read_machine
from affinity.topology import Modes, Topology

Write = Callable[..., Any]
Made = Callable[..., Topology]

GIB = 1 << 30


@pytest.fixture
def made(write_machine: Write, tmp_path: Path) -> Made:
    """Writes the files of a machine, with the arguments of `write_machine`, and reads them."""
    return lambda **words: read_machine(write_machine(tmp_path, **words).root)


def _modes(topology: Topology) -> tuple[str, str]:
    modes = topology.modes
    assert isinstance(modes, Modes)
    return modes.cluster, modes.memory


def _kinds(topology: Topology) -> dict[int, str]:
    return {node.id: node.kind for node in topology.numa_nodes}


def _pairs(topology: Topology) -> dict[int, int]:
    """The node whose cores each HBM node belongs to."""
    pairs = {}
    for node in topology.numa_nodes:
        if node.kind == "hbm":
            assert not node.cpus
            (pairs[node.id],) = node.near
    return pairs


def _cores_of_nodes(topology: Topology) -> dict[int, int]:
    return dict(sorted(Counter(core.numa_node for core in topology.cores).items()))


def _dram_and_hbm(dram: Sequence[int], hbm: Sequence[int]) -> dict[int, str]:
    return {**dict.fromkeys(dram, "dram"), **dict.fromkeys(hbm, "hbm")}


def _evidence(topology: Topology, node: int) -> str:
    return topology.node(node).evidence


# What others described.


@pytest.mark.parametrize(
    "file", ["64intel64-fakeKNL-SNC4-hybrid.tar.bz2", "64intel64-fakeKNL-SNC4-hybrid.v2.xml"]
)
def test_xeon_phi_in_snc4_hybrid_mode_from_its_files_and_from_hwloc(
    shared_topologies: Path, file: str
) -> None:
    topology = read_machine(shared_topologies / "hwloc" / file)
    assert _modes(topology) == ("SNC-4", "hybrid 50 %")
    assert _kinds(topology) == _dram_and_hbm(range(4), range(4, 8))
    assert _pairs(topology) == {4: 1, 5: 2, 6: 3, 7: 0}
    assert _cores_of_nodes(topology) == {0: 4, 1: 4, 2: 4, 3: 4}
    assert {len(core.cpus) for core in topology.cores} == {4}
    assert [len(tile) for tile in topology.tiles] == [2] * 8
    assert [cache.size_bytes for cache in topology.node(0).side_caches] == [2 * GIB]
    assert topology.node(7).side_caches == ()
    assert topology.node(7).memory_bytes == 2 * GIB


def test_xeon_phi_in_all_to_all_cache_mode(shared_topologies: Path) -> None:
    topology = read_machine(shared_topologies / "hwloc/64intel64-fakeKNL-A2A-cache.tar.bz2")
    assert _modes(topology) == ("all-to-all", "cache")
    assert _kinds(topology) == {0: "dram"}
    (cache,) = topology.node(0).side_caches
    assert (cache.size_bytes, cache.line_bytes, cache.associativity) == (16 * GIB, 64, "direct")
    assert "knl_memoryside_cache" in cache.evidence
    assert (len(topology.cores), len(topology.cpus), len(topology.tiles)) == (16, 64, 8)


def test_real_xeon_phi_7210_without_memory_in_its_description(shared_topologies: Path) -> None:
    topology = read_machine(shared_topologies / "hwloc/Intel-KnightsLanding-XeonPhi-7210.v2.xml")
    assert topology.model == "Intel(R) Xeon Phi(TM) CPU 7210 @ 1.30GHz"
    assert (len(topology.cores), len(topology.cpus), len(topology.tiles)) == (64, 256, 32)
    assert topology.cores[1].cpus == (1, 65, 129, 193)
    assert [core.cpus[0] for core in topology.tiles[0]] == [0, 1]
    assert _kinds(topology) == {0: "unknown"}
    assert _modes(topology) == ("unknown", "unknown")


def test_real_pair_of_xeon_max_9460_without_memory_in_its_description(
    shared_topologies: Path,
) -> None:
    path = shared_topologies / "hwloc/Intel-SapphireRapids-2xXeonMax9460.v2.xml"
    topology = read_machine(path)
    assert (len(topology.cores), len(topology.cpus)) == (80, 160)
    assert Counter(core.package for core in topology.cores) == {0: 40, 1: 40}
    assert [len(group) for group in topology.l3_groups] == [40, 40]
    assert _kinds(topology) == {0: "unknown"}
    assert _modes(topology) == ("unknown", "unknown")


@pytest.mark.parametrize(
    "file",
    [
        "cpuid-Intel-KnightsLanding-XeonPhi-7210.tar.bz2",
        "cpuid-Intel-SapphireRapids-2xXeonMax9460.tar.bz2",
    ],
)
def test_raw_cpuid_dumps_are_refused_with_the_way_out(shared_topologies: Path, file: str) -> None:
    with pytest.raises(TopologyError, match=r"only raw cpuid dumps.*give hwloc's XML"):
        read_machine(shared_topologies / "hwloc" / file)


def test_smbios_tables_alone_are_no_machine(shared_topologies: Path) -> None:
    with pytest.raises(TopologyError, match="cannot tell the cpus"):
        read_machine(shared_topologies / "hwloc/smbios-knl-snc4h50.tar.bz2")


def test_real_xeon_with_optane_in_memory_mode_has_no_hbm(shared_topologies: Path) -> None:
    topology = read_machine(shared_topologies / "hwloc/memorysidecaches.tar.bz2")
    assert topology.model == "Intel(R) Xeon(R) Gold 6230 CPU @ 2.10GHz"
    assert _modes(topology) == ("SNC-2", "cache")
    assert _kinds(topology) == dict.fromkeys(range(4), "dram")
    assert _cores_of_nodes(topology) == {0: 10, 1: 10, 2: 10, 3: 10}
    assert {core.numa_node for core in topology.cores if core.package == 0} == {0, 2}
    assert [node.side_caches[0].size_bytes for node in topology.numa_nodes] == [96 * GIB] * 4
    assert "Optane" in _evidence(topology, 0)
    # Its HMAT table is all zeros.
    assert [node.bandwidth_mb_per_second for node in topology.numa_nodes] == [None] * 4


@pytest.mark.parametrize(
    ("file", "cluster", "pairs"),
    [
        ("knm_all2all.xml", "all-to-all, hemisphere or quadrant", {1: 0}),
        ("knm_snc2.xml", "SNC-2", {2: 0, 3: 1}),
        ("knm_snc4.xml", "SNC-4", {4: 0, 5: 1, 6: 2, 7: 3}),
    ],
)
def test_memkinds_virtual_xeon_phis_are_known_by_their_distances(
    shared_topologies: Path, file: str, cluster: str, pairs: dict[int, int]
) -> None:
    topology = read_machine(shared_topologies / "memkind" / file)
    assert _modes(topology) == (cluster, "flat")
    assert _pairs(topology) == pairs
    assert _kinds(topology) == _dram_and_hbm(sorted(pairs.values()), sorted(pairs))
    assert len(topology.cores) == 16
    assert "no processor is named, but the distances" in _evidence(topology, min(pairs))


def test_memkinds_virtual_cascade_lake_has_hbm_by_its_bandwidths(shared_topologies: Path) -> None:
    topology = read_machine(shared_topologies / "memkind/clx_4_var1_emul_hbw.xml")
    assert _modes(topology) == ("one node per package", "flat")
    assert _kinds(topology) == _dram_and_hbm(range(4), range(4, 8))
    assert _pairs(topology) == {4: 0, 5: 1, 6: 2, 7: 3}
    assert "1.8 times the bandwidth" in _evidence(topology, 4)
    assert Counter(core.package for core in topology.cores) == {0: 4, 1: 4, 2: 4, 3: 4}


@pytest.mark.parametrize("linux", ["6.1", "6.12"])
def test_captured_flat_mode_is_told_by_bandwidths(shared_topologies: Path, linux: str) -> None:
    name = f"qemu-captures/xeonmax-like-2s-flat-snc1-hmat.linux{linux}.tgz"
    topology = read_machine(shared_topologies / name)
    assert _modes(topology) == ("one node per package", "flat")
    assert _kinds(topology) == _dram_and_hbm((0, 1), (2, 3))
    assert _pairs(topology) == {2: 0, 3: 1}
    assert "2.7 times the bandwidth" in _evidence(topology, 2)
    assert [node.bandwidth_mb_per_second for node in topology.numa_nodes] == [
        *(266_240, 266_240, 716_800, 716_800)
    ]
    assert [node.latency_ns for node in topology.numa_nodes] == [110, 110, 130, 130]
    tiers = {"6.1": [4, 4, 4, 4], "6.12": [4, 4, 1, 1]}[linux]
    assert [node.tier for node in topology.numa_nodes] == tiers
    assert len(topology.cpus) == 8
    assert topology.distances[2] == (13, 23, 10, 23)


def test_captured_cache_mode_shows_its_side_caches(shared_topologies: Path) -> None:
    name = "qemu-captures/xeonmax-like-2s-cache-msc.linux6.12.tgz"
    topology = read_machine(shared_topologies / name)
    assert _modes(topology) == ("one node per package", "cache")
    assert _kinds(topology) == {0: "dram", 1: "dram"}
    assert [node.side_caches[0].size_bytes for node in topology.numa_nodes] == [65_536, 65_536]


def test_captured_xeon_phi_in_snc4_flat_mode(shared_topologies: Path) -> None:
    topology = read_machine(
        shared_topologies / "qemu-captures/knl-like-snc4-flat-32cpu.linux6.1.tgz"
    )
    assert _modes(topology) == ("SNC-4", "flat")
    assert _kinds(topology) == _dram_and_hbm(range(4), range(4, 8))
    assert _pairs(topology) == {4: 0, 5: 1, 6: 2, 7: 3}
    assert _cores_of_nodes(topology) == {0: 2, 1: 2, 2: 2, 3: 2}
    assert {len(core.cpus) for core in topology.cores} == {4}


def test_aurora_from_numactls_text(shared_topologies: Path) -> None:
    name = "text/aurora-2xXeonMax9470C-flat-quad.numactl-H.txt"
    topology = read_machine(shared_topologies / name)
    assert _modes(topology) == ("quadrant", "flat")
    assert _kinds(topology) == _dram_and_hbm((0, 1), (2, 3))
    assert _pairs(topology) == {2: 0, 3: 1}
    assert Counter(core.package for core in topology.cores) == {0: 52, 1: 52}
    assert topology.cores[0].cpus == (0, 104)
    assert topology.cores[52].cpus == (52, 156)
    assert [node.memory_bytes // GIB for node in topology.numa_nodes] == [503, 502, 64, 64]
    assert topology.node(2).free_bytes == 65_424 << 20


def test_xeon_phi_7250_from_numactls_text(shared_topologies: Path) -> None:
    topology = read_machine(shared_topologies / "text/knl7250-quad-flat.numactl-H.txt")
    assert _modes(topology) == ("all-to-all, hemisphere or quadrant", "flat")
    assert _kinds(topology) == {0: "dram", 1: "hbm"}
    assert _pairs(topology) == {1: 0}
    assert (len(topology.cores), len(topology.cpus)) == (68, 272)
    assert [len(tile) for tile in topology.tiles] == [2] * 34
    assert {core.package for core in topology.cores} == {0}


def test_xeon_max_in_snc4_from_the_first_part_of_numactls_text(shared_topologies: Path) -> None:
    name = "text/xeonmax-2s-48c-flat-snc4.numactl-H.partial.txt"
    topology = read_machine(shared_topologies / name)
    assert _modes(topology) == ("SNC-4", "flat")
    assert _kinds(topology) == _dram_and_hbm(range(8), range(8, 11))
    assert _cores_of_nodes(topology) == dict.fromkeys(range(8), 12)
    assert Counter(core.package for core in topology.cores) == {0: 48, 1: 48}
    # There are no distances in it.
    assert topology.node(8).near == tuple(range(8))
    assert "nothing tells which cpus are nearest" in topology.node(8).near_evidence
    assert any("11-15 not described" in note for note in topology.notes)


# Made up here.


def test_uneven_xeon_phi_with_pairs_in_no_order(made: Made) -> None:
    topology = made(
        processor="knl",
        clusters=(18, 18, 16, 16),
        threads=4,
        tile=2,
        memories=dict.fromkeys(range(4, 8), 4096),
        near={4: 1, 5: 2, 6: 3, 7: 0},
        slit="knl",
    )
    assert _modes(topology) == ("SNC-4", "flat")
    assert _cores_of_nodes(topology) == {0: 18, 1: 18, 2: 16, 3: 16}
    assert _pairs(topology) == {4: 1, 5: 2, 6: 3, 7: 0}
    assert [len(tile) for tile in topology.tiles] == [2] * 34
    assert len(topology.cpus) == 272


@pytest.mark.parametrize(
    ("processor", "megabytes", "memory"),
    [("knl", 3072, "hybrid 25 %"), ("knm", 2048, "hybrid 50 %"), ("knm", 4096, "flat")],
)
def test_size_of_mcdram_tells_hybrid_modes(
    write_machine: Write, tmp_path: Path, processor: str, megabytes: int, memory: str
) -> None:
    away = dict.fromkeys(range(4, 8), megabytes)
    machine = write_machine(
        tmp_path, processor=processor, clusters=(4,) * 4, memories=away, slit="knl"
    )
    assert _modes(read_machine(machine.root)) == ("SNC-4", memory)


def test_xeon_phi_in_cache_mode_with_clusters(made: Made) -> None:
    topology = made(processor="knl", clusters=(32, 32))
    assert _modes(topology) == ("SNC-2", "cache")
    assert [node.side_caches[0].size_bytes for node in topology.numa_nodes] == [8 * GIB] * 2


def _xeon_max(made: Made, **changes: Any) -> Topology:
    """Two packages in SNC-4: nodes 0-7 with 14 cores each, 8-15 with 16 GB of HBM."""
    arguments: dict[str, Any] = {
        "processor": "xeon-max",
        "packages": 2,
        "clusters": (14,) * 8,
        "threads": 2,
        "megabytes": 65_536,
        "memories": dict.fromkeys(range(8, 16), 16_384),
        "slit": "xeon-max",
        "bandwidth": {**dict.fromkeys(range(8), 65_000), **dict.fromkeys(range(8, 16), 175_000)},
    }
    return made(**{**arguments, **changes})


def test_sixteen_nodes_of_xeon_max(made: Made) -> None:
    topology = _xeon_max(made)
    assert _modes(topology) == ("SNC-4", "flat")
    assert _kinds(topology) == _dram_and_hbm(range(8), range(8, 16))
    assert _pairs(topology) == {8 + cluster: cluster for cluster in range(8)}
    # 175 GB/s is less than what DRAM of a whole package has: only the ratio tells.
    assert "2.7 times" in _evidence(topology, 15)
    assert (len(topology.cores), len(topology.cpus)) == (112, 224)


def test_name_and_distances_are_enough_for_xeon_max(made: Made) -> None:
    near = {8 + cluster: 7 - cluster for cluster in range(8)}
    topology = _xeon_max(made, bandwidth=None, near=near)
    assert _pairs(topology) == near
    assert "named 'Intel(R) Xeon(R) CPU Max 9480'" in _evidence(topology, 8)


def test_an_hmat_of_zeros_leaves_the_name_of_xeon_max(made: Made) -> None:
    topology = _xeon_max(made, bandwidth=dict.fromkeys(range(16), 0))
    assert _kinds(topology) == _dram_and_hbm(range(8), range(8, 16))
    assert topology.node(8).bandwidth_mb_per_second is None
    assert "2.7 times" not in _evidence(topology, 8)


def test_an_hmat_of_zeros_leaves_nothing_of_other_xeons(made: Made) -> None:
    zeros = dict.fromkeys(range(16), 0)
    topology = _xeon_max(made, processor="xeon", bandwidth=zeros)
    assert _kinds(topology) == {
        **dict.fromkeys(range(8), "dram"),
        **dict.fromkeys(range(8, 16), "unknown"),
    }
    assert "zeros, which means not given" in _evidence(topology, 8)
    assert any("say --hbm 8-15 or AFFINITY_HBM_NODES=8-15" in note for note in topology.notes)
    assert _modes(topology) == ("SNC-4", "DRAM and memory of unknown kind")


def test_the_user_may_say_what_nothing_tells(write_machine: Write, tmp_path: Path) -> None:
    machine = write_machine(tmp_path, clusters=(4, 4), packages=2, memories={2: 512, 3: 512})
    topology = read_machine(machine.root, parse_hbm("2@1,3@0"))
    assert _pairs(topology) == {2: 1, 3: 0}
    assert _modes(topology) == ("one node per package", "flat")


def test_hbm_with_lower_ids_than_its_dram(made: Made) -> None:
    topology = made(
        processor="",
        packages=2,
        clusters=(4, 4),
        nodes=(2, 3),
        memories={0: 4096, 1: 4096},
        near={0: 3, 1: 2},
        slit="xeon-max",
        bandwidth={0: 700, 1: 700, 2: 260, 3: 260},
    )
    assert _kinds(topology) == _dram_and_hbm((2, 3), (0, 1))
    assert _pairs(topology) == {0: 3, 1: 2}


@pytest.mark.parametrize("clusters", [(56, 56), (14,) * 8])
def test_xeon_max_that_runs_on_hbm_alone(made: Made, clusters: tuple[int, ...]) -> None:
    topology = made(
        processor="xeon-max",
        packages=2,
        clusters=clusters,
        megabytes=2 * 64_000 // len(clusters),
        slit="xeon-max",
    )
    assert _modes(topology) == ("quadrant" if len(clusters) == 2 else "SNC-4", "HBM only")
    assert set(_kinds(topology).values()) == {"hbm"}
    assert [node.near for node in topology.numa_nodes] == [(n,) for n in range(len(clusters))]


def test_xeon_max_with_hbm_as_a_cache(made: Made) -> None:
    topology = made(
        processor="xeon-max",
        packages=2,
        clusters=(4, 4),
        megabytes=262_144,
        side_cache={0: 64 * GIB, 1: 64 * GIB},
    )
    assert _modes(topology) == ("quadrant", "cache")
    assert _kinds(topology) == {0: "dram", 1: "dram"}


def test_xeon_max_whose_hbm_was_never_brought_online(write_machine: Write, tmp_path: Path) -> None:
    machine = write_machine(tmp_path, processor="xeon-max", clusters=(56,), megabytes=262_144)
    assert _modes(read_machine(machine.root)) == (
        "quadrant",
        "cache or flat with HBM offline; cannot be told",
    )
    machine.add_dax("dax0.0", 1, "hmem.0", online=False, size_bytes=64 * GIB)
    topology = read_machine(machine.root)
    assert _modes(topology) == ("quadrant", "flat, with HBM offline")
    assert any("daxctl reconfigure-device --mode=system-ram dax0.0" in n for n in topology.notes)


def test_slow_memory_without_cpus_is_not_hbm(write_machine: Write, tmp_path: Path) -> None:
    machine = write_machine(
        tmp_path,
        processor="amd",
        packages=2,
        clusters=(8, 8),
        memories={2: 131_072, 3: 131_072, 4: 262_144},
        near={2: 0, 3: 1, 4: 1},
        slit=[
            [10, 32, 14, 24, 24],
            [32, 10, 24, 14, 14],
            [14, 24, 10, 26, 26],
            [24, 14, 26, 10, 16],
            [24, 14, 26, 16, 10],
        ],
        bandwidth={0: 400_000, 1: 400_000, 2: 60_000, 3: 60_000, 4: 60_000},
        tiers={4: (0, 1), 5: (2, 3, 4)},
    )
    machine.add_dax("dax0.0", 2, "region0")
    machine.add_dax("dax1.0", 4, "ndbus0/region1")
    topology = read_machine(machine.root)
    assert _kinds(topology) == {0: "dram", 1: "dram", 2: "cxl", 3: "unknown", 4: "pmem"}
    assert [topology.node(node).near for node in (2, 3, 4)] == [(0,), (1,), (1,)]
    assert "0.1 times" in _evidence(topology, 3)
    assert _modes(topology)[0] == "NPS-1"


def test_the_kernels_tiers_alone_tell_hbm(made: Made) -> None:
    topology = made(
        processor="",
        clusters=(4, 4),
        memories={2: 512, 3: 512},
        slit="flat",
        tiers={1: (2,), 4: (0, 1, 3)},
    )
    assert _kinds(topology) == {0: "dram", 1: "dram", 2: "hbm", 3: "unknown"}
    assert "memory tier 1" in _evidence(topology, 2)
    # Distances of 20 everywhere say nothing.
    assert topology.node(2).near == (0, 1)


def test_ids_with_holes_and_above_nine(made: Made) -> None:
    topology = made(
        processor="knl",
        clusters=(4, 4),
        nodes=(2, 11),
        memories={7: 8192, 130: 8192},
        near={7: 11, 130: 2},
        slit="knl",
    )
    assert _kinds(topology) == {2: "dram", 7: "hbm", 11: "dram", 130: "hbm"}
    assert _pairs(topology) == {7: 11, 130: 2}
    assert _cores_of_nodes(topology) == {2: 4, 11: 4}
    assert _modes(topology) == ("SNC-2", "flat")
    assert topology.distances[1] == (41, 10, 31, 41)


def test_a_package_whose_cpus_are_all_offline_keeps_its_dram(made: Made) -> None:
    topology = made(
        processor="knl",
        clusters=(2, 2, 2, 2),
        memories=dict.fromkeys(range(4, 8), 4096),
        slit="knl",
        offline=(6, 7),
    )
    assert _kinds(topology) == _dram_and_hbm(range(4), range(4, 8))
    assert topology.offline_cpus == (6, 7)
    assert [core.cpus for core in topology.cores] == [(cpu,) for cpu in range(6)]
    assert "offline" in _evidence(topology, 3)


def test_epyc_with_four_nodes_per_socket(made: Made) -> None:
    topology = made(processor="amd", packages=2, clusters=(24,) * 8, threads=2, l3=8)
    assert _modes(topology) == ("NPS-4", "DRAM only")
    assert set(_kinds(topology).values()) == {"dram"}
    assert [len(group) for group in topology.l3_groups] == [8] * 24
    assert (len(topology.cores), len(topology.cpus)) == (192, 384)


def test_plain_xeon_with_two_packages(made: Made) -> None:
    topology = made(
        packages=2, clusters=(56, 56), threads=2, l3="package", slit=[[10, 21], [21, 10]]
    )
    assert _modes(topology) == ("one node per package", "DRAM only")
    assert _kinds(topology) == {0: "dram", 1: "dram"}
    assert [len(group) for group in topology.l3_groups] == [56, 56]


def test_virtual_machine_with_one_node(made: Made) -> None:
    topology = made(processor="", clusters=(2,))
    assert _modes(topology) == ("one node", "DRAM only")
    assert _kinds(topology) == {0: "dram"}
    assert [core.cpus for core in topology.cores] == [(0,), (1,)]


def test_numactls_text_of_an_uneven_xeon_phi_gives_its_cores(tmp_path: Path) -> None:
    runs = [(0, 18), (18, 36), (36, 52), (52, 68)]
    lines = ["available: 8 nodes (0-7)"]
    for node, (first, end) in enumerate(runs):
        cpus = [str(68 * thread + cpu) for thread in range(4) for cpu in range(first, end)]
        lines += [f"node {node} cpus: {' '.join(cpus)}", f"node {node} size: 24576 MB"]
    lines += [f"node {node} cpus:\nnode {node} size: 4096 MB" for node in range(4, 8)]
    lines += ["node distances:", "node   0   1   2   3   4   5   6   7"]
    near = {4: 1, 5: 2, 6: 3, 7: 0}
    for a in range(8):
        row = (
            10
            if a == b
            else 21
            if max(a, b) < 4
            else 31
            if b in (near.get(a),) or near.get(b) == a
            else 41
            for b in range(8)
        )
        lines.append(f"  {a}:  {'  '.join(map(str, row))}")
    path = tmp_path / "knl.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    topology = read_machine(path)
    assert _modes(topology) == ("SNC-4", "flat")
    assert _cores_of_nodes(topology) == {0: 18, 1: 18, 2: 16, 3: 16}
    assert topology.cores[0].cpus == (0, 68, 136, 204)
    assert _pairs(topology) == near
    assert {core.package for core in topology.cores} == {0}


# Odd ones.


ARM = {"CPU architecture": "8", "Features": "fp asimd sve"}
A64FX = {**ARM, "CPU implementer": "0x46", "CPU part": "0x001"}
GRACE = {**ARM, "CPU implementer": "0x41", "CPU part": "0xd4f"}
MI300A = {"vendor_id": "AuthenticAMD", "cpu family": "25", "model": "144"}


@pytest.mark.parametrize(
    ("processor", "packages", "model"),
    [(A64FX, 1, "Fujitsu A64FX"), (MI300A, 4, "AMD Instinct MI300")],
)
def test_processors_whose_numbers_tell_that_they_have_hbm_alone(
    made: Made, processor: dict[str, str], packages: int, model: str
) -> None:
    topology = made(processor=processor, packages=packages, clusters=(12,) * 4, megabytes=8192)
    assert topology.model == model
    assert _modes(topology)[1] == "HBM only"
    assert _kinds(topology) == dict.fromkeys(range(4), "hbm")
    assert [node.near for node in topology.numa_nodes] == [(0,), (1,), (2,), (3,)]


def test_memory_of_a_gpu_beside_arm_cores_is_no_hbm(write_machine: Write, tmp_path: Path) -> None:
    away = {1: 97_280, **dict.fromkeys(range(2, 9), 0)}
    machine = write_machine(tmp_path, processor=GRACE, clusters=(72,), memories=away, slit="flat")
    topology = read_machine(machine.root)
    assert _kinds(topology) == {0: "dram", **dict.fromkeys(range(1, 9), "unknown")}
    assert any("it is not used as HBM: if it is, say --hbm 1 or" in n for n in topology.notes)
    machine.write("proc/driver/nvidia/gpus/0009:01:00.0/numa_status", "Node:              1")
    topology = read_machine(machine.root)
    assert topology.node(1).kind == "gpu"
    assert _modes(topology)[1] == "DRAM and memory of a GPU"
    assert not any("--hbm" in note for note in topology.notes)


def test_memory_that_is_slower_than_dram_is_not_offered_as_hbm(made: Made) -> None:
    topology = made(
        packages=2,
        clusters=(8, 8),
        memories={2: 131_072},
        near={2: 1},
        slit=[[10, 21, 24], [21, 10, 14], [24, 14, 10]],
        bandwidth={0: 250_000, 1: 250_000, 2: 50_000},
    )
    assert topology.node(2).kind == "unknown"
    assert _evidence(topology, 2).endswith("(50000 to 250000 MB/s): slower than DRAM")
    assert not any("--hbm" in note for note in topology.notes)


def test_xeon_max_has_no_more_hbm_than_its_packages(made: Made) -> None:
    # The farther one may be CXL memory, of which nothing else tells.
    topology = made(
        processor="xeon-max",
        clusters=(8,),
        memories={1: 65_536, 2: 65_536},
        slit=[[10, 14, 13], [14, 10, 24], [13, 24, 10]],
    )
    assert _kinds(topology) == {0: "dram", 1: "unknown", 2: "hbm"}


def test_hbm_that_could_be_anybodys_is_noted_with_the_way_out(made: Made) -> None:
    away = dict.fromkeys(range(4, 8), 4096)
    topology = made(processor="knl", clusters=(18, 18, 16, 16), memories=away, slit=[[10] * 8] * 8)
    assert _kinds(topology) == _dram_and_hbm(range(4), range(4, 8))
    assert topology.node(6).near == (0, 1, 2, 3)
    assert topology.notes == (
        "nothing tells whose HBM is at NUMA node 4-7, so all cores use all of it: if you know, say "
        "it as in --hbm 4@0",
    )


def test_snc3_of_uneven_clusters(made: Made) -> None:
    name = {"vendor_id": "GenuineIntel", "cpu family": "6", "model": "173"}
    topology = made(processor=name, packages=2, clusters=(43, 43, 42) * 2, threads=2, l3="node")
    assert _modes(topology) == ("SNC-3", "DRAM only")
    assert _cores_of_nodes(topology) == {0: 43, 1: 43, 2: 42, 3: 43, 4: 43, 5: 42}
    assert [len(group) for group in topology.l3_groups] == [43, 43, 42, 43, 43, 42]


def test_hardware_threads_that_are_switched_off_leave_their_cores(made: Made) -> None:
    topology = made(clusters=(8,), threads=2, offline=(9, 11, 13))
    assert len(topology.cores) == 8
    assert [core.cpus for core in topology.cores][:3] == [(0, 8), (1,), (2, 10)]
    assert topology.offline_cpus == (9, 11, 13)


def test_package_without_memory_keeps_its_cores(made: Made) -> None:
    topology = made(processor="amd", packages=2, clusters=(8, 8), megabytes=(65_536, 0))
    assert _modes(topology) == ("NPS-1", "DRAM only")
    assert _kinds(topology) == {0: "dram", 1: "unknown"}
    assert _cores_of_nodes(topology) == {0: 8, 1: 8}
    assert not any("--hbm" in note for note in topology.notes)


def test_xeon_phi_whose_name_numactl_does_not_know_keeps_its_tiles(tmp_path: Path) -> None:
    path = tmp_path / "knl.txt"
    cpus = [
        " ".join(str(c + 6 * t) for t in range(4) for c in cores)
        for cores in ((0, 1, 2, 3), (4, 5))
    ]
    path.write_text(
        f"available: 2 nodes (0-1)\nnode 0 cpus: {cpus[0]}\nnode 0 size: 96 GB\n"
        f"node 1 cpus: {cpus[1]}\nnode 1 size: 96 GB\n"
        "Architecture: x86_64\nVendor ID: GenuineIntel\nCPU family: 6\nModel: 133\n"
        "Thread(s) per core: 4\nSocket(s): 1\n"
    )
    topology = read_machine(path)
    assert topology.model == "Xeon Phi (Knights Mill)"
    assert [[core.cpus[0] for core in tile] for tile in topology.tiles] == [[0, 1], [2, 3], [4, 5]]
    assert any("every Xeon Phi has tiles of two cores" in note for note in topology.notes)
