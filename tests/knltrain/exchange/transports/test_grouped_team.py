from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from knltrain.errors import ExchangeTimeout, PeerLost
from knltrain.exchange.rules.averaging import GradientMean
from knltrain.exchange.rules.easgd import EASGD
from knltrain.exchange.strategies.asynchronous import AsynchronousStrategy
from knltrain.exchange.strategies.hierarchical import HierarchicalStrategy
from knltrain.exchange.strategies.method import Levels, Method
from knltrain.exchange.strategies.node_memory import NodeMemory
from knltrain.exchange.strategies.synchronous import SynchronousStrategy
from knltrain.exchange.transports.grouped_team import GroupedTeam
from knltrain.exchange.transports.joining import join
from vectorized_ops.reference import elastic

INSIDE = Method("inside", GradientMean(3, elastic.synchronous_average), SynchronousStrategy)
OUTSIDE = Method(
    "outside", EASGD(0.2, elastic), AsynchronousStrategy, schedule="first_come", after="step"
)
METHOD = replace(OUTSIDE, strategy=HierarchicalStrategy, levels=Levels(3, INSIDE, OUTSIDE))
WORKERS = 6


def in_groups(work: Callable[[GroupedTeam], Any]) -> list[Any]:
    memory = NodeMemory(100, WORKERS, METHOD, "memfd")

    def one(rank: int) -> Any:
        team = join([os.dup(fd) for fd in memory.fds_of(rank)], rank, 20)
        assert isinstance(team, GroupedTeam)
        try:
            return work(team)
        finally:
            team.close()

    try:
        with ThreadPoolExecutor(WORKERS) as threads:
            return list(threads.map(one, range(WORKERS)))
    finally:
        memory.close()


def test_ranks_count_through_the_groups_and_roots_are_connected() -> None:
    def work(team: GroupedTeam) -> tuple[int, int, int, bool]:
        team.barrier()
        return team.rank, team.workers, team.inside.rank, team.outside is not None

    assert in_groups(work) == [(rank, 6, rank % 3, rank % 3 == 0) for rank in range(6)]


def test_sums_are_those_of_all_workers_to_the_same_bits() -> None:
    values = np.random.default_rng(1).standard_normal((WORKERS, 3)) * 10.0 ** np.arange(3)
    sums = in_groups(lambda team: team.all_sum(values[team.rank]))
    np.testing.assert_allclose(sums[0], values.sum(axis=0), rtol=1e-12)
    assert all(np.array_equal(sums[0], other) for other in sums)


def test_groups_of_one_node_have_no_link() -> None:
    assert in_groups(lambda team: team.link_rate(100)) == [None] * WORKERS


def test_all_of_a_group_find_what_its_root_has_found() -> None:
    """The workers of a group look at different times; the second group waits for the first."""
    ahead = threading.Event()

    def work(team: GroupedTeam) -> list[list[int]]:
        group, seen = team.rank // 3, []
        for step in range(1, 21):
            time.sleep(0.001 * (team.rank % 3))
            if group == 0 and step == 10:
                ahead.set()
            if group == 1 and step == 5:
                assert ahead.wait(60)
            seen.append(team.progress(step).tolist())
            assert seen[-1][team.rank] == step
        team.barrier()
        assert team.progress(20).tolist() == [20] * WORKERS
        return seen

    found = in_groups(work)
    for group in (found[:3], found[3:]):
        assert group[0] == group[1] == group[2]
        assert all(counts == [counts[0]] * 3 + [counts[3]] * 3 for counts in group[0])
    assert any(counts[0] > counts[3] for counts in found[3])


def test_nobody_passes_a_barrier_before_all_have_come() -> None:
    arrived, lock = [0], threading.Lock()

    def work(team: GroupedTeam) -> list[int]:
        seen = []
        for turn in range(20):
            time.sleep(0.002 if turn % WORKERS == team.rank else 0)
            with lock:
                arrived[0] += 1
            team.barrier()
            seen.append(arrived[0] >= WORKERS * (turn + 1))
            team.barrier()
        return seen

    assert all(all(seen) for seen in in_groups(work))


def test_every_worker_reads_the_center_of_the_roots() -> None:
    def work(team: GroupedTeam) -> list[float]:
        if team.outside is not None:
            team.outside.start_from(np.full(100, 7, np.float32) if team.rank == 0 else None)
        team.barrier()
        return team.center[[0, -1]].tolist()

    assert in_groups(work) == [[7, 7]] * WORKERS


def test_a_failure_is_noticed_in_every_group() -> None:
    memory = NodeMemory(100, WORKERS, METHOD, "memfd")
    teams = [join([os.dup(fd) for fd in memory.fds_of(rank)], rank, 20) for rank in range(WORKERS)]
    memory.abort(1)
    for team in teams:
        with pytest.raises(PeerLost):
            team.check()
        team.close()
    memory.close()


def test_who_is_late_is_called_by_its_rank_in_the_run() -> None:
    memory = NodeMemory(100, WORKERS, METHOD, "memfd")
    teams = {
        rank: join([os.dup(fd) for fd in memory.fds_of(rank)], rank, 0.2) for rank in (0, 3, 5)
    }
    with ThreadPoolExecutor(2) as threads:
        waiting = {rank: threads.submit(teams[rank].barrier) for rank in (3, 5)}
        for future in waiting.values():
            with pytest.raises(ExchangeTimeout, match=r"for worker 4 \(has not joined\)"):
                future.result()
    outside = teams[0].outside  # type: ignore[attr-defined]
    with pytest.raises(ExchangeTimeout, match="for worker 3"):
        outside.barrier()
    for team in teams.values():
        team.close()
    memory.close()
