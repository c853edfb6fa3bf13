from __future__ import annotations

import numpy as np
import pytest

from knltrain.exchange.words import ABORTED, publish, watch

GOES_ON = np.zeros(1, np.int64)


def test_published_number_lands_in_the_word_of_its_rank_alone() -> None:
    words = np.zeros(12, np.int64)
    publish(words[1::4], 2, 7)
    assert words.tolist() == [0] * 9 + [7, 0, 0]


@pytest.mark.parametrize(
    "reached, found",
    [([5, 5, 5], 3), ([9, 5, 6], 3), ([4, 5, 5], 0), ([5, 4, 3], 1), ([6, 5, 4], 2)],
)
def test_watch_returns_first_rank_missing_or_number_of_workers(
    reached: list[int], found: int
) -> None:
    words = np.zeros(12, np.int64)
    words[0::4] = reached
    assert watch(words[0::4], GOES_ON, 5, 3, 3) == found


def test_watch_sees_the_abort_word() -> None:
    assert watch(np.array([1, 0]), np.array([143]), 1, 1, 0) == ABORTED


def test_arrival_of_all_outweighs_the_abort_word() -> None:
    assert watch(np.array([1, 1]), np.array([143]), 1, 1, 0) == 2
