from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from affinity.errors import TopologyError
from affinity.machine.cross_check import Difference, compare, lstopo_topology
from affinity.machine.hwloc_xml import NO_CORES
from affinity.topology import Cache, Core, NumaNode, SideCache, Topology

GIB = 1 << 30


def _cache(level: int, *cpus: int) -> Cache:
    return Cache(level, "unified", 1 << 20, 64, cpus)


def _machine() -> Topology:
    """Two packages of a tile each, two cores of one thread in it; DRAM 0 and 1, HBM 2 and 3."""
    cores = tuple(Core(cpu % 2, cpu // 2, cpu // 2, (cpu,)) for cpu in range(4))
    return Topology(
        model="m",
        vendor="v",
        isa=(),
        cores=cores,
        numa_nodes=(
            NumaNode(0, (0, 1), 8 * GIB, 0, "dram", "beside cpus", near=(0,)),
            NumaNode(1, (2, 3), 8 * GIB, 0, "dram", "beside cpus", near=(1,)),
            NumaNode(2, (), GIB, 0, "hbm", "faster", near=(0,)),
            NumaNode(3, (), GIB, 0, "hbm", "faster", near=(1,)),
        ),
        sources=(),
        caches=(_cache(2, 0, 1), _cache(2, 2, 3), _cache(3, 0, 1, 2, 3)),
    )


def _with_node(topology: Topology, node: int, **changes: object) -> Topology:
    nodes = tuple(
        replace(known, **changes) if known.id == node else known for known in topology.numa_nodes
    )
    return replace(topology, numa_nodes=nodes)


def test_same_machine_has_no_differences() -> None:
    assert compare(_machine(), _machine()) == ()


def test_cpus_that_only_one_side_knows_are_one_difference_not_many() -> None:
    ours = _machine()
    fewer = replace(
        ours,
        cores=ours.cores[:3],
        caches=(_cache(2, 0, 1), _cache(2, 2), _cache(3, 0, 1, 2)),
        numa_nodes=(
            ours.numa_nodes[0],
            replace(ours.numa_nodes[1], cpus=(2,)),
            *ours.numa_nodes[2:],
        ),
    )
    assert compare(ours, fewer) == (Difference("cpus", "0-3", "0-2"),)


def test_cores_and_packages_are_compared_by_their_cpus() -> None:
    ours = _machine()
    pairs = (Core(0, 0, 0, (0, 1)), Core(1, 0, 1, (2, 3)))
    assert compare(ours, replace(ours, cores=pairs)) == (
        Difference(
            "cores", "4, of them only here 0 | 1 | 2 | ...", "2, of them only here 0-1 | 2-3"
        ),
        Difference("packages", "2, of them only here 0-1 | 2-3", "1, of them only here 0-3"),
    )


def test_numbers_of_cores_and_packages_do_not_count() -> None:
    ours = _machine()
    renumbered = tuple(
        replace(core, id=core.id + 7, package=core.package + 3) for core in ours.cores
    )
    assert compare(ours, replace(ours, cores=renumbered)) == ()


def test_tiles_that_differ_are_named() -> None:
    ours = _machine()
    apart = replace(ours, caches=(*(_cache(2, cpu) for cpu in range(4)), ours.caches[2]))
    assert compare(ours, apart) == (
        Difference(
            "cpus that share an L2",
            "2, of them only here 0-1 | 2-3",
            "4, of them only here 0 | 1 | 2 | ...",
        ),
    )


def test_shared_cache_that_we_do_not_know_is_a_difference_but_not_one_that_they_do_not() -> None:
    full = _machine()
    silent = replace(full, caches=())
    assert compare(full, silent) == ()
    assert compare(silent, full) == (
        Difference("cpus that share an L2", "not told", "0-1 | 2-3"),
        Difference("cpus that share an L3", "not told", "0-3"),
    )
    private = replace(full, caches=tuple(_cache(2, cpu) for cpu in range(4)))
    assert compare(silent, private) == ()


def test_instruction_caches_share_nothing() -> None:
    ours = _machine()
    extra = replace(_cache(2, 0, 1, 2, 3), kind="instruction")
    assert compare(ours, replace(ours, caches=(*ours.caches, extra))) == ()


def test_nodes_that_differ_are_named_by_what_differs() -> None:
    ours = _machine()
    assert compare(ours, replace(ours, numa_nodes=ours.numa_nodes[:3])) == (
        Difference("NUMA nodes", "0-3", "0-2"),
    )
    assert compare(ours, _with_node(ours, 1, cpus=(3,))) == (
        Difference("cpus of NUMA node 1", "2-3", "3"),
    )
    assert compare(ours, _with_node(ours, 2, kind="cxl", evidence="its subtype")) == (
        Difference("kind of memory of NUMA node 2", "hbm (faster)", "cxl (its subtype)"),
    )
    assert compare(ours, _with_node(ours, 2, near=(1,))) == (
        Difference("cpus near to NUMA node 2", "0-1", "2-3"),
    )


def test_cpus_of_memory_may_be_those_that_it_is_near_to() -> None:
    """hwloc does not tell one from the other where no memory but that is near to them."""
    ours = _machine()
    bare = _with_node(replace(ours, numa_nodes=(ours.numa_nodes[1],)), 1, near=(0,), cpus=())
    initiator = NumaNode(0, (2, 3), 0, 0, "unknown", "it has no memory", near=(0,))
    ours = replace(bare, numa_nodes=(initiator, *bare.numa_nodes))
    theirs = _with_node(replace(ours, numa_nodes=ours.numa_nodes[1:]), 1, near=(1,), cpus=(2, 3))
    assert [it.fact for it in compare(ours, theirs)] == ["NUMA nodes"]
    assert [it.fact for it in compare(ours, _with_node(theirs, 1, cpus=(1, 2)))] == [
        "NUMA nodes",
        "cpus of NUMA node 1",
    ]


def test_cores_that_hwloc_left_out_are_no_difference() -> None:
    ours = _machine()
    theirs = replace(ours, cores=(replace(ours.cores[0], cpus=(0, 2)), *ours.cores[2:]))
    assert "cores" in [it.fact for it in compare(ours, theirs)]
    assert "cores" not in [it.fact for it in compare(ours, replace(theirs, notes=(NO_CORES,)))]


def test_kind_that_one_side_does_not_know_is_no_difference() -> None:
    unknown = _with_node(_machine(), 2, kind="unknown")
    assert compare(_machine(), unknown) == compare(unknown, _machine()) == ()


def test_memory_near_to_all_nodes_says_nothing_of_whose_it_is() -> None:
    everywhere = _with_node(_machine(), 2, near=(0, 1))
    assert compare(_machine(), everywhere) == compare(everywhere, _machine()) == ()


def test_nodes_that_hold_nothing_may_be_left_out() -> None:
    ours = _machine()
    empty = NumaNode(255, (), 0, 0, "gpu", "a GPU's, not in use")
    assert compare(replace(ours, numa_nodes=(*ours.numa_nodes, empty)), ours) == ()


def test_memory_of_gpus_may_be_left_out() -> None:
    ours = _machine()
    gpu = NumaNode(255, (), 32 * GIB, 32 * GIB, "gpu", "a GPU's", (0,))
    assert compare(replace(ours, numa_nodes=(*ours.numa_nodes, gpu)), ours) == ()
    cxl = replace(gpu, kind="cxl")
    assert [d.fact for d in compare(replace(ours, numa_nodes=(*ours.numa_nodes, cxl)), ours)] == [
        "NUMA nodes"
    ]


def test_sizes_may_differ_by_one_percent() -> None:
    ours = _machine()
    assert compare(ours, _with_node(ours, 2, memory_bytes=round(0.991 * GIB))) == ()
    assert compare(ours, _with_node(ours, 2, memory_bytes=round(0.98 * GIB))) == (
        Difference("memory of NUMA node 2", "1.00 GiB", "1003.52 MiB"),
    )
    assert compare(ours, _with_node(ours, 0, memory_bytes=0)) == ()


def test_memory_side_caches_are_compared_where_both_know_them() -> None:
    sizes = (
        _with_node(_machine(), 0, side_caches=(SideCache(size, 64, "direct", ""),))
        for size in (GIB, 2 * GIB)
    )
    small, large = sizes
    assert compare(small, large) == (
        Difference("memory-side cache of NUMA node 0", "1.00 GiB", "2.00 GiB"),
    )
    assert compare(_machine(), small) == ()


def test_assumed_side_caches_contradict_nobody() -> None:
    told = _with_node(_machine(), 0, side_caches=(SideCache(GIB, 64, "direct", ""),))
    assumed = SideCache(16 * GIB, 64, "direct", "as any Xeon Phi", assumed=True)
    theirs = _with_node(_machine(), 0, side_caches=(assumed,))
    assert compare(told, theirs) == compare(theirs, told) == ()


def _install(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "lstopo"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def test_without_lstopo_there_is_no_second_opinion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert lstopo_topology() is None


def test_lstopo_s_own_words_are_passed_on_when_it_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install(tmp_path, "echo 'Unrecognized option: --disallowed' >&2; exit 1", monkeypatch)
    with pytest.raises(
        TopologyError,
        match=r"lstopo --of xml --no-io --disallowed failed with exit status 1: Unrecognized "
        r"option: --disallowed; hwloc 2\.0 or newer is needed",
    ):
        lstopo_topology()


def test_lstopo_that_does_not_end_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install(tmp_path, "while :; do :; done", monkeypatch)
    with pytest.raises(TopologyError, match=r"lstopo .* did not end within 0\.2 s"):
        lstopo_topology(timeout_seconds=0.2)


def test_lstopo_that_cannot_run_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _install(tmp_path, "", monkeypatch)
    (tmp_path / "lstopo").write_text("#!/no/such/shell\n")
    with pytest.raises(TopologyError, match=r"cannot run .*lstopo: No such file"):
        lstopo_topology()


def test_lstopo_that_writes_no_xml_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _install(tmp_path, "echo Machine", monkeypatch)
    with pytest.raises(TopologyError, match="lstopo is damaged at line 1, column 1"):
        lstopo_topology()
