from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from knltrain.errors import ConfigError, PeerLost, SegmentError
from knltrain.exchange.rules.averaging import ModelAveraging
from knltrain.exchange.rules.easgd import EASGD
from knltrain.exchange.strategies.hierarchical import HierarchicalStrategy
from knltrain.exchange.strategies.method import Levels, Method
from knltrain.exchange.strategies.node_memory import NodeMemory
from knltrain.exchange.strategies.synchronous import SynchronousStrategy
from knltrain.exchange.transports.joining import (
    join,
    join_across_nodes,
    join_for_one_sided,
    join_one_job,
)
from knltrain.exchange.transports.team import Team
from vectorized_ops.reference import elastic
from vectorized_ops.reference.elastic import synchronous_average

from ...mpi_ranks import OVER_TCP, expect_success, needs_mpi, run_ranks
from ..thread_nodes import ThreadNodes

MEAN = ModelAveraging(4, synchronous_average)
PLAIN = Method("local_sgd", MEAN, SynchronousStrategy, after="step")
GROUPED = replace(PLAIN, strategy=HierarchicalStrategy, levels=Levels(2, PLAIN, PLAIN))
PROGRAM = Path(__file__).with_name("grouped_ranks.py")
GROUP = 3


@pytest.mark.parametrize("method", [PLAIN, GROUPED])
def test_collective_is_closed_with_the_team_or_where_there_can_be_none(method: Method) -> None:
    memory = NodeMemory(10, 2, method, "memfd", nodes=2)
    between = ThreadNodes(2)
    team = join_across_nodes(
        [os.dup(fd) for fd in memory.fds_of(0)], 0, 20, 1, 2, between.collective(1)
    )
    assert (team.rank, team.workers) == (2, 4)
    with pytest.raises(SegmentError, match="already runs"):
        join_across_nodes(
            [os.dup(fd) for fd in memory.fds_of(0)], 0, 20, 0, 2, between.collective(0)
        )
    assert between.closed == [0]
    team.close()
    assert between.closed == [0, 1]
    memory.close()


def test_a_rank_is_taken_once() -> None:
    memory = NodeMemory(10, 4, GROUPED, "memfd")
    team = join([os.dup(fd) for fd in memory.fds_of(2)], 2, 20)
    with pytest.raises(SegmentError, match="already runs"):
        join([os.dup(fd) for fd in memory.fds_of(2)], 2, 20)
    team.close()
    memory.close()


def test_a_group_waits_as_long_as_it_takes_its_root_to_become_a_rank() -> None:
    """Longer than it waits for anybody else; and until the root has failed."""
    memory = NodeMemory(
        10, 2, replace(GROUPED, rule=EASGD(0.2, elastic), schedule="first_come"), "memfd", nodes=2
    )

    def job(number: int, ranks: int, check: Callable[[], None]) -> Any:
        assert (number, ranks) == (1, 2)
        check()
        time.sleep(0.6)
        memory.abort(1)
        raise ConfigError("no MPI")

    def one(rank: int) -> Team:
        fds = [os.dup(fd) for fd in memory.fds_of(rank)]
        return join_for_one_sided(fds, 2 + rank, 4, job, 0.1, 20)

    with ThreadPoolExecutor(2) as threads:
        root, other = (threads.submit(one, rank) for rank in range(2))
        with pytest.raises(PeerLost):
            other.result()
        with pytest.raises(ConfigError, match="no MPI"):
            root.result()
    memory.close()


def test_who_does_not_become_a_rank_lets_go_of_the_memory() -> None:
    """The second worker of the second of two nodes."""
    memory = NodeMemory(16, 2, PLAIN, "memfd", nodes=2)
    fds = [os.dup(fd) for fd in memory.fds_of(1)]

    def job(rank: int, ranks: int, check: Callable[[], None]) -> Any:
        assert (rank, ranks) == (3, 4)
        memory.abort(1)
        check()

    with pytest.raises(PeerLost, match="another worker failed"):
        join_one_job(fds, 3, 4, job, 20)
    for fd in fds:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
    memory.close()


def told_by(
    scene: str, ranks: int, groups_of_a_node: int, environment: dict[str, str] | None = None
) -> dict[int, list[Any]]:
    """What each worker of so many groups has found, those of each node sharing a memory."""
    words = (str(PROGRAM), scene, str(groups_of_a_node))
    found: dict[int, list[Any]] = {}
    for line in expect_success(run_ranks(ranks, *words, environment=environment)).splitlines():
        rank, what = json.loads(line)
        found.setdefault(rank, []).append(what)
    assert sorted(found) == list(range(GROUP * ranks))
    return found


@needs_mpi
def test_one_group_that_comes_by_mpi_has_the_bits_that_it_has_on_one_node() -> None:
    for by_mpi, on_one_node in told_by("as_on_one_node", 1, 1).values():
        assert by_mpi == on_one_node
        assert by_mpi[1] is True


@pytest.mark.slow
@needs_mpi
@pytest.mark.parametrize(
    ("ranks", "groups_of_a_node", "over"),
    [
        pytest.param(2, 1, {}, id="a group on each of two nodes"),
        pytest.param(4, 2, {}, id="two on each"),
        pytest.param(4, 2, OVER_TCP, id="two on each, tcp"),
    ],
)
def test_what_leaves_groups_on_several_nodes_enters_the_center(
    ranks: int, groups_of_a_node: int, over: dict[str, str]
) -> None:
    found = told_by("conserves", ranks, groups_of_a_node, over)
    each = [what for rank in sorted(found) for what in found[rank]]
    assert all(kept and moved for kept, moved, _, _ in each)
    locals_ = [local for _, _, local, _ in each]
    assert all(len(set(locals_[at : at + GROUP])) == 1 for at in range(0, len(each), GROUP))
    assert len(set(locals_)) == ranks
    assert len({center for *_, center in each}) == 1


@needs_mpi
def test_groups_on_several_nodes_are_a_team() -> None:
    found = told_by("team", 2, 1)
    for rank in range(6):
        numbers, sums, steps = found[rank][0]
        assert numbers == [rank, 6, rank % GROUP, rank % GROUP == 0]
        assert sums == [6.0, 15.0]
        assert steps == [12, 12, 12, 13, 13, 13]
