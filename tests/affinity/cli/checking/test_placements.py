from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from affinity import Request, place_workers
from affinity.cli.checking.placements import broken_placements, faults
from affinity.machine.read import read_machine
from affinity.placement.plan import Plan
from affinity.process.allowed import AllowedResources
from affinity.topology import Topology


@pytest.fixture
def topology(write_machine: Callable[..., Any], tmp_path: Path) -> Topology:
    """Eight cores of two threads in tiles of two, and MCDRAM."""
    machine = write_machine(
        tmp_path, processor="knl", clusters=(4, 4), threads=2, tile=2, memories={2: 64, 3: 64}
    )
    return read_machine(machine.root)


def _plan(topology: Topology) -> Plan:
    return place_workers(topology, AllowedResources(cpus=topology.cpus), Request(workers=2))


def _with_cpus(plan: Plan, rank: int, cpus: tuple[int, ...]) -> Plan:
    changed = (replace(it, cpus=cpus) if it.rank == rank else it for it in plan.workers)
    return replace(plan, workers=tuple(changed))


def test_our_plans_break_nothing(topology: Topology) -> None:
    assert list(faults(topology, _plan(topology))) == []
    assert broken_placements(topology) == (5, [])


def test_machine_with_one_core_has_place_for_fewer(
    write_machine: Callable[..., Any], tmp_path: Path
) -> None:
    topology = read_machine(write_machine(tmp_path, clusters=(1,)).root)
    assert broken_placements(topology) == (3, [])


@pytest.mark.parametrize(
    ("cpus", "said"),
    [
        ((0, 8, 99), "cpus 99 do not run"),
        ((), "worker 0 has no cpus"),
        ((0, 1, 8), "the core of cpus 1,9 is cut"),
        ((0, 8, 1, 9, 4, 12), "cpus 4,12 are given to several"),
        ((0, 8, 1, 9, 4, 12), "the tile of cpus 4-5,12-13 is cut"),
    ],
)
def test_plan_that_breaks_something_is_told(
    topology: Topology, cpus: tuple[int, ...], said: str
) -> None:
    assert said in list(faults(topology, _with_cpus(_plan(topology), 0, cpus)))


def test_memory_that_does_not_exist_is_told(topology: Topology) -> None:
    fewer = replace(topology, numa_nodes=topology.numa_nodes[:3])
    assert any("sent to NUMA node 3, which" in fault for fault in faults(fewer, _plan(topology)))
