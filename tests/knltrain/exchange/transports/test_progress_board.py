"""What workers find on the board, in real processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from knltrain.exchange.transports.progress_board import ProgressBoard
from knltrain.exchange.transports.segment import Segment


@pytest.fixture
def segment() -> Iterator[Segment]:
    created = Segment.create(10, 3, "memfd")
    yield created
    created.close()


def test_worker_finds_its_own_steps_and_those_of_the_others(segment: Segment) -> None:
    boards = [ProgressBoard(segment, rank) for rank in range(3)]
    assert boards[1].share(5).tolist() == [0, 5, 0]
    assert boards[2].share(2**40).tolist() == [0, 5, 2**40]
    assert boards[1].share(6).tolist() == [0, 6, 2**40]
    for board in boards:
        board.close()


def test_board_touches_no_other_word_of_the_segment(segment: Segment) -> None:
    before = segment.words.copy()
    board = ProgressBoard(segment, 2)
    board.share(7)
    board.close()
    assert segment.steps_done.tolist() == [0, 0, 7]
    assert np.count_nonzero(segment.words != before) == 1


def test_counts_never_fall_and_are_those_of_all_in_the_end(start: Any) -> None:
    for rank, found in enumerate(start("progress", 3).results()):
        rounds = len(found["seen"])
        assert np.all(np.diff(found["seen"], axis=0) >= 0)
        assert found["seen"][:, rank].tolist() == list(range(1, rounds + 1))
        assert found["end"].tolist() == [rounds] * 3
