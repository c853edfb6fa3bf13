"""Layers travel from the last to the first, and one number says which chunk of which iteration."""

import pytest

from knltrain.errors import CollectiveError
from knltrain.exchange.tree_exchange.schedule import Chunk, Schedule


@pytest.fixture
def schedule():
    return Schedule({"first": 5, "second": 2, "third": 1}, chunk_floats=2)


def test_chunks_go_backward_over_layers_and_begin_again(schedule):
    assert [schedule.chunk(number) for number in range(7)] == [
        Chunk(0, slice(7, 8), True),
        Chunk(1, slice(5, 7), True),
        Chunk(2, slice(0, 2), False),
        Chunk(2, slice(2, 4), False),
        Chunk(2, slice(4, 5), True),
        Chunk(3, slice(7, 8), True),
        Chunk(4, slice(5, 7), True),
    ]


def test_turns_end_after_their_chunks(schedule):
    assert [schedule.chunks_until(turns) for turns in range(8)] == [0, 1, 2, 5, 6, 7, 10, 11]
    for number in range(30):
        turn = schedule.chunk(number).turn
        assert schedule.chunks_until(turn) <= number < schedule.chunks_until(turn + 1)


def test_a_turn_is_a_layer_of_an_iteration(schedule):
    assert [(schedule.layer(turn), schedule.iteration(turn)) for turn in (0, 2, 3, 7)] == [
        ("third", 0),
        ("first", 0),
        ("third", 1),
        ("second", 2),
    ]
    assert [schedule.position(layer) for layer in ("third", "first")] == [0, 2]
    assert schedule.part("second") == slice(5, 7)


def test_an_unknown_layer_is_refused_with_those_there_are(schedule):
    with pytest.raises(CollectiveError, match="layer 'fourth': expected one of first, second"):
        schedule.part("fourth")


@pytest.mark.parametrize(("layers", "chunk"), [({}, 1), ({"a": 0}, 1), ({"a": 3}, 0)])
def test_what_cannot_be_cut_is_refused(layers, chunk):
    with pytest.raises(CollectiveError, match=f"chunk_floats={chunk}: expected layers with 1"):
        Schedule(layers, chunk)
