from __future__ import annotations

from dataclasses import replace

from affinity.cli.core_map import core_map
from affinity.placement.plan import Placement, Plan
from affinity.topology import Cache, Core, NumaNode, Topology


def _machine(cores: int, l3: int) -> Topology:
    """One package of plain cores, `l3` of them to each L3."""
    caches = tuple(
        Cache(3, "unified", 2**25, 64, tuple(range(first, first + l3)))
        for first in range(0, cores, l3)
    )
    node = NumaNode(0, tuple(range(cores)), 2**30, 2**30, "dram", "", (0,))
    return Topology(
        "x", "x", (), tuple(Core(n, 0, 0, (n,)) for n in range(cores)), (node,), (), caches
    )


def _one_each(cores: int) -> Plan:
    return Plan(workers=tuple(Placement(rank, (rank,), 1, (0,)) for rank in range(cores)))


def test_tiles_stand_in_brackets_and_the_systems_apart(
    knights_landing: Topology, knights_plan: Plan
) -> None:
    assert core_map(knights_landing, knights_plan) == [
        "package 0 node 0  [==][00][00][00][00][00][00][00][00]",
        "package 0 node 1  [11][11][11][11][11][11][11][11][11]",
        "package 0 node 2  [22][22][22][22][22][22][22][22]",
        "package 0 node 3  [33][33][33][33][33][33][33][33]",
        "0-3 worker of that core   = kept for the system   [ ] a tile",
    ]


def test_cores_of_different_l3_groups_are_set_apart() -> None:
    assert core_map(_machine(8, l3=4), _one_each(8)) == [
        "package 0 node 0  0123 4567",
        "0-7 worker of that core",
    ]


def test_one_l3_for_all_makes_no_gaps() -> None:
    assert core_map(_machine(4, l3=4), _one_each(4))[0] == "package 0 node 0  0123"


def test_long_rows_break_between_l3_groups() -> None:
    lines = core_map(_machine(90, l3=9), _one_each(9))
    assert lines[0] == "package 0 node 0  012345678" + " !!!!!!!!!" * 7
    assert lines[1] == " " * 18 + "!!!!!!!!! !!!!!!!!!"


def test_rows_longer_than_the_page_break_inside_a_group() -> None:
    lines = core_map(_machine(120, l3=120), Plan(workers=(Placement(0, (0,), 1, (0,)),)))
    assert [len(line) for line in lines[:2]] == [100, 18 + 38]


def test_workers_beyond_the_letters_share_a_sign() -> None:
    lines = core_map(_machine(64, l3=64), _one_each(64))
    assert lines[0].endswith("XYZ##")
    assert lines[1] == "0-Z worker of that core   # workers from 62 on"


def test_helping_and_idle_cores_have_signs_of_their_own() -> None:
    worker = Placement(0, (0,), 1, (0,), communication_cpus=(1,), data_cpus=(2,))
    lines = core_map(_machine(5, l3=5), Plan(workers=(worker,), idle_cpus=(3,)))
    assert lines == [
        "package 0 node 0  0~+.!",
        "0 the worker's core   ~ communication   + data   . idle   ! not allowed",
    ]


def test_nodes_are_named_with_their_package(xeon_max: Topology) -> None:
    workers = tuple(
        Placement(rank, tuple(cpu for c in xeon_max.cores if c.package == rank for cpu in c.cpus),
                  52, (rank,)) for rank in range(2)
    )  # fmt: skip
    lines = core_map(replace(xeon_max, caches=()), Plan(workers=workers))
    assert lines[0] == "package 0 node 0  " + 52 * "0"
    assert lines[1] == "package 1 node 1  " + 52 * "1"
