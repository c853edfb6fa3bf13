"""Where the vectors of a worker lie that the run has placed: by what it exchanges with whom."""

from __future__ import annotations

import os

import numpy as np
import pytest

from affinity import MemoryPlan, Placement
from affinity.process.memory_policy import memory_policy
from knltrain.communication.shared_memory.anonymous_file import page_bytes_for
from knltrain.exchange.rules.downpour import Downpour
from knltrain.exchange.rules.easgd import EASGD
from knltrain.exchange.strategies.asynchronous import AsynchronousStrategy, OverlappedPushStrategy
from knltrain.exchange.strategies.method import Method, Schedule
from knltrain.exchange.strategies.node_memory import NodeMemory
from knltrain.exchange.strategies.overlapped import OverlappedStrategy
from knltrain.exchange.strategies.strategy import Strategy, strategy_in
from knltrain.exchange.transports.joining import join
from knltrain.exchange.transports.layout import Layout
from knltrain.exchange.transports.node_shared import NodeShared
from knltrain.vectors import FloatArray
from vectorized_ops.reference import downpour, elastic

ON_NODE_0 = MemoryPlan("spill", "preferred", (0,))
LARGE = 600_000
"""Values of a vector whose stripes have pages of their own."""


def policy_of(vector: FloatArray) -> str:
    """The kernel's memory policy of the page that a vector begins in."""
    return str(memory_policy(vector.ctypes.data))


def placed(method: Method) -> tuple[NodeMemory, NodeShared]:
    """The memory of two workers, that of rank 1 placed on node 0, and rank 1's way to it."""
    memory = NodeMemory(LARGE, 2, method)
    place = Placement(1, (0,), 1, (), memory=ON_NODE_0)
    assert memory.place([place]) == ()
    team = join([os.dup(fd) for fd in memory.fds_of(1)], 1, 20)
    assert isinstance(team, NodeShared)
    return memory, team


@pytest.mark.parametrize("strategy", [AsynchronousStrategy, OverlappedPushStrategy])
@pytest.mark.parametrize("schedule", ["first_come", "round_robin", "lock_free"])
def test_worker_that_comes_alone_is_placed_without_a_spare(
    schedule: Schedule, strategy: type[Strategy]
) -> None:
    """What it would keep in one is its own memory, which the policy of its process places."""
    rule = EASGD(0.3, elastic)
    method = Method("easgd", rule, strategy, 1, schedule, "step")
    memory, team = placed(method)
    assert team.spare.size == 0
    without_spares = Layout(LARGE, 2, page_bytes_for(LARGE)).total_bytes
    assert os.fstat(memory.fds_of(1)[0]).st_size == without_spares
    assert policy_of(team.local) == "preferred:0"
    assert policy_of(team.center) == "default"  # the stripe of rank 0
    assert policy_of(team.center[LARGE * 3 // 4 :]) == "preferred:0"
    part = strategy_in(method, team)
    private = [each for each in vars(part).values() if isinstance(each, np.ndarray)]
    assert [policy_of(each) for each in private] == ["default"] * 2  # gradient, contribution
    part.close()
    memory.close()


def test_worker_that_meets_others_is_placed_with_its_spare() -> None:
    memory, team = placed(Method("easgd", EASGD(0.3, elastic), OverlappedStrategy))
    assert policy_of(team.local) == policy_of(team.spare) == "preferred:0"
    spare = team.spare.ctypes.data
    team.swap()
    assert (team.local.ctypes.data, policy_of(team.local)) == (spare, "preferred:0")
    team.close()
    memory.close()


def test_worker_that_comes_alone_has_what_its_rule_keeps_placed_by_stripes() -> None:
    method = Method(
        "mdownpour", Downpour(downpour, 0.5), AsynchronousStrategy, 1, "first_come", "step"
    )
    memory, team = placed(method)
    assert policy_of(team.kept[0]) == "default"
    assert policy_of(team.kept[0][LARGE * 3 // 4 :]) == "preferred:0"
    team.close()
    memory.close()
