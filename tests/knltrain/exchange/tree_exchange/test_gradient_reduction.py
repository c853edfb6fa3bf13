"""Sums have the same bits whoever comes first, and no slot is written before it was read."""

import random

import numpy as np
import pytest

from knltrain.exchange.tree_exchange.gradient_reduction import GradientReduction
from knltrain.exchange.tree_exchange.schedule import Schedule

from .members import Members
from .training import tree_sum

SCHEDULE = Schedule({"first": 23, "second": 3}, chunk_floats=4)
TURNS, CHUNKS = 2, 7


class Reductions:
    def __init__(self, ranks, slots):
        self.members = Members(ranks, SCHEDULE, slots)
        rng = np.random.default_rng(ranks)
        self.gradients = [
            (rng.standard_normal(SCHEDULE.size) * 10.0 ** (rank % 4)).astype(np.float32)
            for rank in range(ranks)
        ]
        self.expected = tree_sum(self.gradients)
        self.parts = [
            GradientReduction(member, gradient)
            for member, gradient in zip(self.members.members, self.gradients, strict=True)
        ]

    def step(self, rank):
        return self.members.step(self.parts[rank])

    def settle(self, *ranks):
        self.members.settle(*(self.parts[rank] for rank in ranks))


@pytest.fixture
def reductions():
    made = []

    def make(ranks, slots=2):
        made.append(Reductions(ranks, slots))
        return made[-1]

    yield make
    for each in made:
        each.members.close()


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7, 8])
@pytest.mark.parametrize("seed", range(3))
def test_the_root_has_the_bits_of_the_binomial_order_in_any_order_of_steps(reductions, ranks, seed):
    all_of = reductions(ranks, slots=1 + seed)
    dice = random.Random(seed)
    late = list(range(ranks))
    dice.shuffle(late)
    for _ in range(100_000):
        if all_of.parts[0].summed == CHUNKS:
            break
        if late and dice.random() < 0.05:
            all_of.parts[late.pop()].ready = TURNS
        all_of.step(dice.randrange(ranks))
    assert np.array_equal(all_of.gradients[0], all_of.expected)


def test_a_later_child_waits_for_an_earlier_one(reductions):
    all_of = reductions(4)
    for rank in (0, 2):
        all_of.parts[rank].ready = TURNS
    own = all_of.gradients[0].copy()
    all_of.settle(0, 2)
    assert np.array_equal(all_of.gradients[0], own)
    assert all_of.parts[0].awaited() == (
        "rank 1 has not sent its gradient of layer 'second', iteration 0 (edge 1 to 0)"
    )


def test_a_child_is_ahead_by_the_slots_of_its_ring_and_no_more(reductions):
    all_of = reductions(2, slots=3)
    all_of.parts[1].ready = TURNS
    all_of.settle(1)
    assert all_of.parts[1].summed == all_of.parts[1].settled == 3
    assert all_of.parts[1].awaited() == (
        "rank 0 has not made room in its ring for the gradient of layer 'first', iteration 0 "
        "(edge 1 to 0)"
    )
    all_of.parts[0].ready = 1  # one chunk
    all_of.settle(0)
    all_of.settle(1)
    assert all_of.parts[1].summed == 4


def test_a_layer_that_is_not_ready_does_not_travel(reductions):
    all_of = reductions(2)
    all_of.parts[0].ready = TURNS
    all_of.parts[1].ready = 1
    all_of.settle(0, 1)
    assert [part.summed for part in all_of.parts] == [1, 1]
    assert all_of.parts[1].awaited() is None
    assert "rank 1 has not sent its gradient of layer 'first'" in all_of.parts[0].awaited()
