"""The board on which workers find what is asked: its words, in one process and in several."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from knltrain.exchange.transports.board import OpenRound, RequestBoard


@pytest.fixture
def board() -> Iterator[RequestBoard]:
    created = RequestBoard.create(3)
    yield created
    created.close()


def _word(board: RequestBoard) -> int:
    return int(board.lines[0])


def test_nothing_is_asked_on_a_new_board(board: RequestBoard) -> None:
    assert board.open_round(_word(board)) is None
    assert board.answered(0)
    assert not board.answered(1)


def test_round_is_held_and_then_open(board: RequestBoard) -> None:
    board.lines[1:] = 4, 6, 5
    assert board.hold(1) == 6
    assert _word(board) % 2
    assert board.open_round(_word(board)) is None
    board.open(OpenRound(1, 6, stops=True))
    assert board.open_round(_word(board)) == OpenRound(1, 6, stops=True)


def test_round_is_answered_when_all_have_answered(board: RequestBoard) -> None:
    for slot in (2, 0):
        board.answer(slot, 1)
        assert not board.answered(1)
    board.answer(1, 1)
    assert board.answered(1)
    assert board.lines.tolist() == [0, 0, 0, 0]


def test_what_is_asked_is_seen_by_another_process(board: RequestBoard) -> None:
    child = os.fork()
    if child == 0:
        own = RequestBoard.attach(os.dup(board.fd))
        own.lines[2] = 77
        os._exit(0 if own.lines.size == 4 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert board.hold(1) == 77
