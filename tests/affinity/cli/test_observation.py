from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence

import pytest

from affinity import Arena, MemoryPlan, ObservedBinding, Placement, allowed_cpus
from affinity.cli import observation
from affinity.cli.observation import Sight, look_at

MIB = 1 << 20
HBM, DRAM = 2, 0
SPILL = MemoryPlan("spill", "preferred", (HBM,), (HBM, DRAM), hbm=True)
STRICT = MemoryPlan("strict", "bind", (HBM,), (HBM,), hbm=True)
SPLIT = MemoryPlan(
    "split", "preferred", (DRAM,), arenas=(Arena("weights", "preferred", (HBM,), 40 * MIB),)
)


def _process(cpus: str = "0", policy: str = "", **mebibytes: int) -> ObservedBinding:
    sizes = {name.removeprefix("node"): size * MIB for name, size in mebibytes.items()}
    return {
        "cpus": cpus,
        "threads": [{"id": 1, "name": "x", "cpus": cpus}],
        "openmp_runtimes": [],
        "memory_policy": policy,
        "memory": {"anonymous": sizes, "shared": {}, "file": {"0": MIB}},
    }


def _seen(
    monkeypatch: pytest.MonkeyPatch, memory: MemoryPlan, processes: Sequence[ObservedBinding]
) -> Sight:
    monkeypatch.setattr(observation, "is_launching", lambda _: False)
    monkeypatch.setattr(observation, "observe", lambda pid: processes[pid])
    found = look_at(Placement(0, (0,), 1, (0,), memory=memory), range(len(processes)))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("memory", "processes", "problems", "misplaced"),
    [
        (SPILL, [_process(node0=90, node2=10)], 0, False),
        (SPILL, [_process(node0=90)], 1, True),
        # Threads elsewhere are told, but void a strict placement only.
        (SPILL, [_process("0-3", node2=10)], 1, False),
        (STRICT, [_process("0-3", "bind:2", node2=10)], 1, True),
        (STRICT, [_process(policy="bind:2", node2=10)], 0, False),
        # A process that came when HBM was full, and one that hides behind its shell.
        (SPILL, [_process(node0=90, node2=10), _process(node0=1)], 1, False),
        (SPILL, [_process(node2=1), _process(node0=90)], 1, True),
        (SPLIT, [_process(node0=1), _process(node0=1, node2=40)], 0, False),
        (SPLIT, [_process(node0=1), _process(node0=41)], 1, True),
        # Too little memory for the arena to have been filled.
        (SPLIT, [_process(node0=1), _process(node0=10)], 1, False),
    ],
)
def test_place_is_void_where_nothing_is_in_the_memory_that_was_asked_for(
    memory: MemoryPlan,
    processes: list[ObservedBinding],
    problems: int,
    misplaced: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = _seen(monkeypatch, memory, processes)
    assert (len(found.problems), found.misplaced) == (problems, misplaced)


def test_processes_of_a_rank_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _seen(monkeypatch, SPLIT, [_process(node0=1), _process("1-2", node0=1, node2=40)])
    assert (found.cpus, found.threads) == ((0, 1, 2), 2)
    assert found.bytes_by_node == {0: 2 * MIB, 2: 40 * MIB}


def test_child_that_nobody_has_waited_for_is_no_process_without_memory() -> None:
    with subprocess.Popen(["true"]) as ended:
        while _state(ended.pid) != "Z":
            time.sleep(0.01)
        placement = Placement(0, allowed_cpus(), 1, (0,), memory=STRICT)
        assert look_at(placement, [ended.pid]) is None


def test_process_that_has_ended_is_not_seen() -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    assert look_at(Placement(0, allowed_cpus(), 1, (0,)), [ended.pid]) is None
    found = look_at(Placement(0, allowed_cpus(), 1, (0,)), [ended.pid, os.getpid()])
    assert found is not None


def _state(pid: int) -> str:
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:  # noqa: PTH123 (as short as it is)
        return stat.read().rpartition(")")[2].split()[0]
