"""Every edge has places of its own in the segments at its two ends."""

import pytest

from knltrain.exchange.tree_exchange.edges import ROOM, WEIGHTS_CAME, Edges
from knltrain.exchange.tree_exchange.schedule import Schedule
from knltrain.exchange.tree_exchange.trees import Branches

SLOTS, CHUNK = 3, 4
TREES = Branches(None, 3)
SCHEDULE = Schedule({"a": 10, "b": 1}, CHUNK)


@pytest.mark.parametrize("trees", [TREES, Branches(1, 2), Branches(3, 4)], ids=str)
@pytest.mark.parametrize("ranks", [1, 2, 5, 8])
def test_rings_and_notifications_do_not_overlap(ranks, trees):
    for rank in range(ranks):
        edges = Edges(SCHEDULE, SLOTS, trees, rank, ranks)
        children = edges.reduction.children
        taken = list(range(SCHEDULE.size))
        for child in children:
            for slot in range(SLOTS):
                begin = edges.slot(child, slot)
                assert edges.slot_bytes(child, slot) == 4 * begin
                assert edges.slot(child, slot + 5 * SLOTS) == begin
                taken += range(begin, begin + CHUNK)
        assert sorted(taken) == list(range(edges.size_bytes // 4))
        words = [WEIGHTS_CAME, ROOM]
        words += [edges.gradients_came(child) for child in children]
        words += [edges.released(child) for child in edges.broadcast.children]
        assert sorted(words) == list(range(edges.notifications))


def test_a_child_sees_its_parents_layout():
    child = Edges(SCHEDULE, SLOTS, TREES, 5, 8)
    parent = child.of(child.reduction.parent)
    assert parent.rank == 1
    assert 5 in parent.reduction.children
    assert parent.slot(5, 0) == Edges(SCHEDULE, SLOTS, TREES, 1, 8).slot(5, 0)
