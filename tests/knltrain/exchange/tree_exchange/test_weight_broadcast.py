"""Versions of weights reach all, and none is written over one that is still in use."""

import numpy as np
import pytest

from knltrain.exchange.tree_exchange.schedule import Schedule
from knltrain.exchange.tree_exchange.weight_broadcast import WeightBroadcast

from .members import Members

SCHEDULE = Schedule({"first": 9, "second": 3}, chunk_floats=4)
FIRST, SECOND = SCHEDULE.part("first"), SCHEDULE.part("second")
LAYERS = 2


class Broadcasts:
    def __init__(self, ranks, branches):
        self.members = Members(ranks, SCHEDULE, branches=branches)
        self.parts = [WeightBroadcast(member) for member in self.members.members]
        self.weights = [member.weights for member in self.members.members]

    def produce(self, turns, value):
        """Let the root have the weights of all turns before this, those of the last one new."""
        assert self.parts[0].released >= turns - LAYERS, "the root still sends the old ones"
        self.weights[0][SCHEDULE.part(SCHEDULE.layer(turns - 1))] = value
        self.parts[0].produced = SCHEDULE.chunks_until(turns)

    def settle(self, *ranks):
        self.members.settle(*(self.parts[rank] for rank in ranks or range(len(self.parts))))


@pytest.fixture
def broadcasts():
    made = []

    def make(ranks, branches=2):
        made.append(Broadcasts(ranks, branches))
        return made[-1]

    yield make
    for each in made:
        each.members.close()


@pytest.mark.parametrize("branches", [1, 2, 3])
@pytest.mark.parametrize("ranks", [1, 2, 7])
def test_all_get_each_version_of_each_layer(broadcasts, ranks, branches):
    all_of = broadcasts(ranks, branches)
    for turn in range(6):
        if turn >= LAYERS:
            for part in all_of.parts:
                part.finished = turn - LAYERS + 1
            all_of.settle()
        all_of.produce(turn + 1, turn + 1)
        all_of.settle()
        for part, weights in zip(all_of.parts, all_of.weights, strict=True):
            assert part.came == part.forwarded == SCHEDULE.chunks_until(turn + 1)
            assert np.all(weights[SCHEDULE.part(SCHEDULE.layer(turn))] == turn + 1)


def test_weights_in_use_are_not_overwritten(broadcasts):
    all_of = broadcasts(2)
    all_of.produce(1, 1)
    all_of.produce(2, 2)
    all_of.settle()
    all_of.parts[0].finished = 1
    all_of.settle()
    all_of.produce(3, 3)
    all_of.settle()
    assert np.all(all_of.weights[0][SECOND] == 3) and np.all(all_of.weights[1][SECOND] == 1)
    assert all_of.parts[0].awaited() == (
        "rank 1 has not released the weights of layer 'second', version 0 (edge 0 to 1)"
    )
    all_of.parts[1].finished = 1
    all_of.settle()
    assert np.all(all_of.weights[1][SECOND] == 3) and np.all(all_of.weights[1][FIRST] == 2)


def test_a_rank_keeps_weights_until_its_children_have_them(broadcasts):
    """A chain 0, 1, 2: rank 1 has done with a version that rank 2 does not let it hand on."""
    all_of = broadcasts(3, branches=1)
    all_of.produce(1, 1)
    all_of.produce(2, 2)
    all_of.settle()
    for part in all_of.parts[:2]:
        part.finished = 2
    all_of.settle()
    all_of.produce(3, 3)
    all_of.settle()
    assert np.all(all_of.weights[1][SECOND] == 3) and np.all(all_of.weights[2][SECOND] == 1)
    all_of.parts[1].finished = 3
    all_of.settle()
    assert all_of.parts[1].released == 2
    assert "rank 2 has not released" in all_of.parts[1].awaited()
    all_of.parts[2].finished = 1
    all_of.settle()
    assert all_of.parts[1].released == 3
    assert np.all(all_of.weights[2][SECOND] == 3)


def test_who_has_nothing_says_who_has_not_sent(broadcasts):
    all_of = broadcasts(3, branches=1)
    all_of.produce(1, 1)
    all_of.settle()
    assert all_of.parts[0].awaited() is None
    assert all_of.parts[2].awaited() == (
        "rank 1 has not sent the weights of layer 'first', version 0 (edge 1 to 2)"
    )
