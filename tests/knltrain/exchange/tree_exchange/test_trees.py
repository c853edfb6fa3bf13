"""The trees are those of CaffeGPI, and whole."""

import pytest

from knltrain.exchange.tree_exchange.trees import (
    Place,
    best_branches,
    binomial,
    k_ary,
    reduction_place,
)

RANKS = [1, 2, 3, 4, 5, 7, 8, 9, 31, 64, 200]


def test_eight_ranks_add_up_as_the_paper_has_it():
    assert [binomial(rank, 8) for rank in range(8)] == [
        Place(None, [1, 2, 4]),
        Place(0, [3, 5]),
        Place(0, [6]),
        Place(1, [7]),
        Place(0, []),
        Place(1, []),
        Place(2, []),
        Place(3, []),
    ]


def test_weights_go_down_in_heap_order():
    assert [k_ary(rank, 6, 3) for rank in range(6)] == [
        Place(None, [1, 2, 3]),
        Place(0, [4, 5]),
        *[Place(0, [])] * 2,
        *[Place(1, [])] * 2,
    ]


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("tree", [binomial, *(lambda r, n, b=b: k_ary(r, n, b) for b in (1, 2, 5))])
def test_parents_and_children_agree_and_all_hang_together(ranks, tree):
    places = [tree(rank, ranks) for rank in range(ranks)]
    assert [rank for rank, place in enumerate(places) if place.parent is None] == [0]
    for rank, place in enumerate(places):
        assert place.children == [other for other in range(ranks) if places[other].parent == rank]
        assert all(child > rank for child in place.children)  # so that no edges make a circle


def test_branches_are_those_that_make_the_broadcast_shortest():
    expected = {1: 2, 2: 2, 3: 2, 4: 3, 8: 2, 16: 2, 32: 3, 64: 2, 256: 3}
    assert {ranks: best_branches(ranks) for ranks in expected} == expected


def test_sums_go_up_a_binomial_tree_or_one_of_given_branches():
    for rank in range(7):
        assert reduction_place(rank, 7, None) == binomial(rank, 7)
        assert reduction_place(rank, 7, 2) == k_ary(rank, 7, 2)
