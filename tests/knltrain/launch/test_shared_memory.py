"""The memory of a node, by the process that makes it and by those that get it from there."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Any

import pytest

from affinity import Placement
from knltrain.communication.shared_memory.descriptor_passing import DescriptorServer, fd_behind
from knltrain.config import RunConfig
from knltrain.launch.node_share import NodeShare
from knltrain.launch.plan import RunPlan
from knltrain.launch.shared_memory import shared_memory


def plan(workers: int, node_share: NodeShare, method: str = "sync_easgd") -> RunPlan:
    config = RunConfig.model_validate(
        {
            "workers": workers,
            "nodes": node_share.nodes,
            "network": {"name": "lenet"},
            "data": {"name": "digits"},
            "train": {"steps": 1, "batch": 8},
            "learning_rate": {"base": 0.1},
            "exchange": {"method": method, "segment": "memfd"},
        }
    )
    own = workers // node_share.shares
    first = node_share.share * own
    places = tuple(Placement(rank, (0,), 1, ()) for rank in range(first, first + own))
    return RunPlan(config, places, 1, (), node_share)


class Doors:
    """In place of a company: what its first share opens."""

    def __init__(self) -> None:
        self.keepers: list[DescriptorServer] = []

    def doorkeepers(self, fds: tuple[int, ...]) -> list[DescriptorServer]:
        self.keepers = [DescriptorServer(fd) for fd in fds]
        return self.keepers

    def memory_fds(self, count: int) -> tuple[int, ...]:
        assert len(self.keepers) == count
        return tuple(fd_behind(keeper.address) for keeper in self.keepers)


def test_worker_alone_needs_none() -> None:
    with shared_memory(plan(1, NodeShare()), None) as (memory, notes):
        assert (memory, notes) == (None, ())


def test_one_worker_on_each_of_two_nodes_has_a_replica_of_the_center() -> None:
    with shared_memory(plan(1, NodeShare(1, 2)), None) as (memory, _):
        assert memory is not None
        assert len(memory.all_fds) == 1


@pytest.mark.parametrize("method", ["sync_easgd", "hierarchical_easgd"])
def test_shares_of_a_node_have_the_same_memory(method: str) -> None:
    doors: Any = Doors()
    with ExitStack() as open_:
        first, _ = open_.enter_context(shared_memory(plan(2, NodeShare(0, 2, 0, 2), method), doors))
        other, _ = open_.enter_context(shared_memory(plan(2, NodeShare(0, 2, 1, 2), method), doors))
        assert first is not None and other is not None
        files = [[os.fstat(fd).st_ino for fd in memory.fds_of(1)] for memory in (first, other)]
        assert files[0] == files[1]
    assert all(keeper._closing for keeper in doors.keepers)
