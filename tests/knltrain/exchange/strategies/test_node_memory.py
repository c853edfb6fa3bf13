from __future__ import annotations

import os
from dataclasses import replace

import pytest

from affinity import MemoryPlan, Placement
from knltrain.exchange.rules.averaging import ModelAveraging
from knltrain.exchange.rules.easgd import EASGD
from knltrain.exchange.strategies.asynchronous import AsynchronousStrategy
from knltrain.exchange.strategies.hierarchical import HierarchicalStrategy
from knltrain.exchange.strategies.method import Levels, Method, Schedule
from knltrain.exchange.strategies.node_memory import NodeMemory
from knltrain.exchange.strategies.synchronous import MasterStrategy, SynchronousStrategy
from knltrain.exchange.transports.joining import join
from knltrain.exchange.transports.node_shared import NodeShared
from knltrain.exchange.transports.segment import Segment
from vectorized_ops.reference import elastic
from vectorized_ops.reference.elastic import synchronous_average

MEAN = ModelAveraging(4, synchronous_average)
PLAIN = Method("local_sgd", MEAN, SynchronousStrategy, after="step")


def grouped(outside: Method = PLAIN, size: int = 2) -> Method:
    levels = Levels(size, PLAIN, outside)
    return replace(outside, strategy=HierarchicalStrategy, levels=levels)


GROUPED = grouped()


def test_workers_share_one_segment() -> None:
    memory = NodeMemory(10, 4, PLAIN, "memfd")
    assert len({memory.fds_of(rank) for rank in range(4)}) == 1
    team = join([os.dup(fd) for fd in memory.fds_of(3)], 3, 20)
    assert isinstance(team, NodeShared)
    assert (team.rank, team.workers, team.spare.size) == (3, 4, 0)
    team.close()
    memory.close()


def test_workers_in_groups_have_one_more_for_each_group() -> None:
    memory = NodeMemory(10, 4, GROUPED, "memfd")
    fds = [memory.fds_of(rank) for rank in range(4)]
    assert fds[0] == fds[1] != fds[2] == fds[3]
    assert len({each[1] for each in fds}) == 1
    memory.close()


@pytest.mark.parametrize("method", [PLAIN, GROUPED])
def test_memory_of_another_process_is_had_by_all_of_its_files(method: Method) -> None:
    workers = 2 if method is GROUPED else 4
    memory = NodeMemory(10, workers, method, "memfd", nodes=2)
    assert len(memory.all_fds) == NodeMemory.segments_for(method, workers)
    attached = NodeMemory.attach([os.dup(fd) for fd in memory.all_fds], method)
    files = [[os.fstat(fd).st_ino for fd in each.fds_of(1)] for each in (memory, attached)]
    assert files[0] == files[1]
    attached.abort(1)
    segment = Segment.attach(os.dup(memory.all_fds[-1]))
    assert segment.abort_word[0] == 1
    segment.close()
    attached.close()
    memory.close()


def test_a_method_that_needs_spares_has_them() -> None:
    memory = NodeMemory(10, 2, replace(PLAIN, strategy=MasterStrategy), "memfd")
    team = join([os.dup(fd) for fd in memory.fds_of(1)], 1, 20)
    assert isinstance(team, NodeShared)
    assert team.spare.shape == (10,)
    team.close()
    memory.close()


@pytest.mark.parametrize(("nodes", "schedule"), [(1, "first_come"), (2, "first_come"), (2, None)])
def test_roots_that_come_to_a_center_elsewhere_have_a_spare_for_its_copy(
    nodes: int, schedule: Schedule | None
) -> None:
    outside = Method("m", EASGD(0.2, elastic), SynchronousStrategy, after="step")
    if schedule is not None:
        outside = replace(outside, strategy=AsynchronousStrategy, schedule=schedule)
    memory = NodeMemory(10, 4, grouped(outside), "memfd", nodes)
    segments = [Segment.attach(os.dup(fd)) for fd in memory.all_fds]
    spares = [len(segment.spares) for segment in segments]
    assert spares == [0, 0, 2 if (nodes, schedule) == (2, "first_come") else 0]
    for segment in segments:
        segment.close()
    memory.close()


def test_memory_of_every_worker_is_placed_in_each_of_its_segments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[int, int, int]] = []

    def place(segment: Segment, rank: int, memory: MemoryPlan) -> tuple[str, ...]:
        asked.append((segment.workers, rank, memory.nodes[0]))
        return ("the same note",)

    monkeypatch.setattr(Segment, "place", place)
    placements = [
        Placement(rank, (0,), 1, (), memory=MemoryPlan("strict", "bind", (rank,)))
        for rank in range(6)
    ]
    for method in (PLAIN, grouped(size=3)):
        memory = NodeMemory(100, 6, method, "memfd")
        assert memory.place(placements) == ("the same note",)
        memory.close()
    assert asked[:6] == [(6, rank, rank) for rank in range(6)]
    of_groups = [(3, rank % 3, rank) for rank in range(6)]
    of_roots = [(2, 0, 0), (2, 1, 3)]
    assert sorted(asked[6:]) == sorted(of_groups + of_roots)
