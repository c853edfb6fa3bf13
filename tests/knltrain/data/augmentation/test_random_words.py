from __future__ import annotations

import numpy as np
import pytest

from knltrain.data.augmentation.random_words import (
    NORMAL_WORDS,
    RandomWords,
    below,
    normal,
    philox,
    shares,
)
from knltrain.data.preprocessing import Draws

KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (
        (0xFFFFFFFF,) * 4,
        (0xFFFFFFFF,) * 2,
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]
"""Counter, key and words that the authors' Random123 tests with."""


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_words_are_those_of_philox(
    counter: tuple[int, ...], key: tuple[int, int], words: tuple[int, ...]
) -> None:
    given = np.array([(0,) * 4, counter], np.uint64).T
    assert tuple(philox(given, key)[:, 1].tolist()) == words


def test_a_picture_has_its_own_words_whoever_asks_for_them() -> None:
    every = RandomWords(Draws(3, 1), np.arange(50)).words(7, 9)
    few = RandomWords(Draws(3, 1), np.array([41, 5])).words(7, 9)
    assert np.array_equal(few, every[[41, 5]])
    assert len(np.unique(every)) == every.size


@pytest.mark.parametrize("pictures", [42, 10**5])
def test_words_of_small_sets_are_those_of_large_ones(pictures: int) -> None:
    rows, draws = np.array([41, 5, 41]), Draws(3, 1)
    expected = RandomWords(draws, rows).words(7, 9)
    assert np.array_equal(RandomWords(draws, rows, pictures).words(7, 9), expected)


def test_words_differ_by_seed_epoch_and_decision() -> None:
    rows = np.arange(3)
    drawn = {
        RandomWords(Draws(seed, epoch), rows).words(what).tobytes()
        for seed in range(3)
        for epoch in range(3)
        for what in range(3)
    }
    assert len(drawn) == 27


def test_whole_numbers_are_below_their_bounds_and_all_are_reached() -> None:
    words = RandomWords(Draws(1, 1), np.arange(2000)).words(0, 2)
    found = below(words, np.array([3, 7]))
    assert set(found[:, 0].tolist()) == set(range(3))
    assert set(found[:, 1].tolist()) == set(range(7))
    most = np.array([[2**32 - 1]], np.uint64)
    assert below(most, 2**31)[0, 0] == 2**31 - 1


def test_shares_and_normal_numbers_have_their_mean_and_deviation() -> None:
    words = RandomWords(Draws(2, 5), np.arange(4000)).words(0, NORMAL_WORDS)
    assert shares(words).mean() == pytest.approx(0.5, abs=0.01)
    assert 0 <= shares(words).min() < shares(words).max() < 1
    found = normal(words)
    assert found.mean() == pytest.approx(0, abs=0.06)
    assert found.std() == pytest.approx(1, abs=0.04)
