"""A member writes chunks to its neighbours and knows which of them are done."""

import threading

import numpy as np

from knltrain.communication.gaspi import AddressSpace, thread_ranks
from knltrain.exchange.tree_exchange.edges import WEIGHTS_CAME, Edges
from knltrain.exchange.tree_exchange.member import Member
from knltrain.exchange.tree_exchange.schedule import Schedule
from knltrain.exchange.tree_exchange.trees import Branches

from ...communication.gaspi.conftest import together

SCHEDULE = Schedule({"a": 6}, 2)


def members(disturb=lambda _origin, _target: None):
    spaces = [AddressSpace(ranks, timeout_seconds=10) for ranks in thread_ranks(2, 0, disturb)]
    found = together(
        spaces, lambda space: Member(space, Edges(SCHEDULE, 2, Branches(None, 2), space.rank, 2))
    )
    return spaces, *found


def test_chunks_are_counted_where_they_arrive():
    spaces, near, far = members()
    lane = near.lane(1)
    for begin in (0, 2):
        lane.send(np.full(2, begin + 1, np.float32), 1, 4 * begin, WEIGHTS_CAME)
    spaces[0].wait(1)
    assert far.counts.look() and far.counts[WEIGHTS_CAME] == 2
    assert far.weights.tolist() == [1, 1, 3, 3, 0, 0]
    together(spaces, lambda space: space.close())


def test_a_chunk_is_settled_when_its_values_may_change():
    let_go = threading.Event()
    spaces, near, _ = members(lambda _origin, _target: let_go.wait(10))
    lane = near.lane(0)
    lane.send(np.ones(2, np.float32), 1, 0, WEIGHTS_CAME)
    assert (lane.sent, lane.settle(), lane.settled) == (1, False, 0)
    let_go.set()
    spaces[0].wait(0)
    assert lane.settle() and lane.settled == 1 and not lane.settle()
    together(spaces, lambda space: space.close())


def test_slots_lie_behind_the_weights():
    spaces, root, leaf = members()
    assert root.floats.size == 6 + 2 * 2 and leaf.floats.size == 6
    root.slot(1, 3, 1)[:] = 5
    assert root.floats.tolist() == [0] * 8 + [5, 0]
    together(spaces, lambda space: space.close())
