from __future__ import annotations

import os
from dataclasses import replace

import pytest

from knltrain.errors import SegmentError
from knltrain.exchange.averaging import ModelAveraging
from knltrain.exchange.joining import join, join_across_nodes
from knltrain.exchange.method import Method
from knltrain.exchange.node_memory import NodeMemory
from vectorized_ops.reference.elastic import synchronous_average

from .thread_nodes import ThreadNodes

PLAIN = Method("local_sgd", ModelAveraging(4, synchronous_average), "parameters", after="step")
GROUPED = replace(PLAIN, inside=PLAIN, group_size=2)


@pytest.mark.parametrize("method", [PLAIN, replace(GROUPED, group_size=2)])
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
