"""Seconds of collective operations, beside schedules that are counted message by message."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from knltrain.cost_model import collectives
from knltrain.cost_model.line import Link
from knltrain.errors import ConfigError

LINK = Link(alpha=3.0, beta=0.5, gamma=0.125)
SIZE = 96.0
ALL = (
    collectives.broadcast,
    collectives.reduction,
    collectives.tree,
    collectives.one_after_another,
    collectives.ring,
    collectives.recursive_doubling,
    collectives.halving_and_doubling,
    collectives.pipelined_tree,
)


def counted_tree(ranks: int) -> int:
    """Rounds in which each who has it tells another one."""
    rounds, told = 0, 1
    while told < ranks:
        told, rounds = 2 * told, rounds + 1
    return rounds


@pytest.mark.parametrize("ranks", range(1, 18))
def test_trees_take_a_message_a_level(ranks: int) -> None:
    rounds = counted_tree(ranks)
    down = collectives.broadcast(LINK, SIZE, ranks)
    assert down == rounds * LINK.message(SIZE)
    up = collectives.reduction(LINK, SIZE, ranks)
    assert up == down + rounds * LINK.gamma * SIZE
    assert collectives.tree(LINK, SIZE, ranks) == up + down


@pytest.mark.parametrize("ranks", [2, 3, 4, 7])
def test_a_ring_sends_a_part_in_each_of_its_steps(ranks: int) -> None:
    part = SIZE / ranks
    steps = [LINK.message(part) + LINK.gamma * part] * (ranks - 1)
    steps += [LINK.message(part)] * (ranks - 1)
    assert collectives.ring(LINK, SIZE, ranks) == pytest.approx(sum(steps))


@pytest.mark.parametrize(("ranks", "full"), [(1, 0), (2, 1), (4, 2), (6, 2), (8, 3)])
def test_pairs_double_what_they_have(ranks: int, full: int) -> None:
    whole = LINK.message(SIZE) + LINK.gamma * SIZE
    beyond = 0.0 if ranks == 2**full else 2 * LINK.message(SIZE) + LINK.gamma * SIZE
    found = collectives.recursive_doubling(LINK, SIZE, ranks)
    assert found == pytest.approx(full * whole + beyond)
    halves = [SIZE / 2**step for step in range(1, full + 1)]
    steps = sum(2 * LINK.message(half) + LINK.gamma * half for half in halves)
    found = collectives.halving_and_doubling(LINK, SIZE, ranks)
    assert found == pytest.approx(steps + beyond)


def test_a_master_serves_one_after_another() -> None:
    each = 2 * LINK.message(SIZE) + LINK.gamma * SIZE
    assert collectives.one_after_another(LINK, SIZE, 5) == 4 * each


@pytest.mark.parametrize(
    ("ranks", "children", "levels"), [(2, 2, 1), (3, 2, 1), (4, 2, 2), (8, 2, 3), (13, 3, 2)]
)
def test_pieces_follow_each_other_down_a_tree(ranks: int, children: int, levels: int) -> None:
    found = collectives.pipelined_tree(LINK, SIZE, ranks, children=children, pieces=4)
    assert found == (4 + levels - 1) * children * LINK.message(SIZE / 4)


def test_servers_share_a_center() -> None:
    one = collectives.shared_center(LINK, SIZE, 6, add=0.25)
    assert one == 2 * LINK.alpha + 6 * SIZE * (2 * LINK.beta + 0.25)
    three = collectives.shared_center(LINK, SIZE, 6, servers=3, add=0.25)
    assert three - 2 * LINK.alpha == pytest.approx((one - 2 * LINK.alpha) / 3)


@pytest.mark.parametrize("function", ALL)
def test_one_rank_has_nothing_to_do(function: Callable[[Link, float, int], float]) -> None:
    assert function(LINK, SIZE, 1) == 0.0
    with pytest.raises(ConfigError, match="0 ranks: expected at least 1"):
        function(LINK, SIZE, 0)


def test_for_large_vectors_a_tree_beats_a_master_and_a_ring_the_tree() -> None:
    fast = Link(1e-12, 1e-9)
    for ranks in (4, 64, 4096):
        master, tree, ring = (
            function(fast, 5e8, ranks)
            for function in (collectives.one_after_another, collectives.tree, collectives.ring)
        )
        assert master / tree == pytest.approx((ranks - 1) / math.log2(ranks))
        assert ring < tree < master


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected finite numbers of seconds, 0 or"):
        Link(-1.0, 0.0)
    with pytest.raises(ConfigError, match="0 servers"):
        collectives.shared_center(LINK, SIZE, 2, servers=0)
    with pytest.raises(ConfigError, match="2 children, 0 pieces: expected at least 1 of each"):
        collectives.pipelined_tree(LINK, SIZE, 2, pieces=0)


@pytest.mark.parametrize(
    ("ranks", "children", "found"),
    [(1, 2, 0), (2, 2, 1), (3, 2, 1), (4, 2, 2), (7, 1, 6), (13, 3, 2)],
)
def test_levels_of_a_tree_are_those_below_its_root(ranks: int, children: int, found: int) -> None:
    assert collectives.k_ary_levels(ranks, children) == found


@pytest.mark.parametrize(("ranks", "children"), [(0, 2), (3, 0)])
def test_trees_without_ranks_or_children_are_refused(ranks: int, children: int) -> None:
    with pytest.raises(ConfigError, match="expected at least 1"):
        collectives.k_ary_levels(ranks, children)
