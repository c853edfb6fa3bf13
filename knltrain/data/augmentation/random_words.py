"""Random numbers for pictures: functions of (seed, epoch, number of the picture, what) alone.

Philox 4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC11)
turns a counter and a key into four words, for many pictures at once. All that follows is computed
so that every machine finds the same: whole numbers, and floats that need no rounding.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, final

import numpy as np
import numpy.typing as npt

from knltrain.data.preprocessing import Draws
from knltrain.data.source import Rows

Words = npt.NDArray[np.uint64]
"""Numbers below 2^32."""

NORMAL_WORDS: Final = 12
"""So many uniform numbers make a normal one."""

_ROUNDS = 10
_MULTIPLIERS: Final = np.array([[0xD2511F53], [0xCD9E8D57]], np.uint64)
_KEY_STEPS: Final = np.array([[0x9E3779B9], [0xBB67AE85]], np.uint64)
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


_MOST_KEPT: Final = 8192
"""Counters of a whole epoch whose words are computed at once."""

_SETS_KEPT: Final = 32
"""Of decisions and epochs; each takes 256 KiB at most. Workers may be some epochs apart."""


@final
class RandomWords:
    """Words for the pictures `rows` (n,) in one epoch; `pictures` are how many there are, if known.

    Of small data sets the words of all pictures are kept, as long as others are not newer.
    """

    def __init__(self, draws: Draws, rows: Rows, pictures: int | None = None) -> None:
        self._draws, self._rows, self._pictures = draws, rows, pictures

    def __len__(self) -> int:
        return len(self._rows)

    def words(self, what: int, count: int = 1) -> Words:
        """`count` words (n, count) of each picture for the decision `what`."""
        blocks = -(-count // 4)
        if self._pictures is not None and self._pictures * blocks <= _MOST_KEPT:
            found = _words_of_all(self._draws, self._pictures, what, blocks)[self._rows]
        else:
            found = _words_of(self._draws, self._rows, what, blocks)
        return found[:, :count]


@lru_cache(_SETS_KEPT)
def _words_of_all(draws: Draws, pictures: int, what: int, blocks: int) -> Words:
    return _words_of(draws, np.arange(pictures), what, blocks)


def _words_of(draws: Draws, rows: Rows, what: int, blocks: int) -> Words:
    """Four words of each block, (n, 4 * blocks)."""
    numbers, counter = rows.astype(np.uint64)[:, None], np.empty((4, len(rows), blocks), np.uint64)
    counter[0], counter[1], counter[2] = numbers & _LOW, numbers >> _HALF, what
    counter[3] = np.arange(blocks)
    found: Words = philox(counter.reshape(4, -1), _key_of(draws)).T
    return found.reshape(len(rows), 4 * blocks)


@lru_cache
def _key_of(draws: Draws) -> tuple[int, int]:
    first, second = np.random.SeedSequence((draws.seed, draws.epoch)).generate_state(2, np.uint32)
    return int(first), int(second)


def philox(counters: Words, key: tuple[int, int]) -> Words:
    """Philox 4x32-10 of counters (4,n) and two key words."""
    even, odd, keys = counters[::2], counters[1::2], np.array(key, np.uint64)[:, None]
    for _ in range(_ROUNDS):
        products = _MULTIPLIERS * even
        even, odd = (products >> _HALF)[::-1] ^ odd ^ keys, (products & _LOW)[::-1]
        keys = (keys + _KEY_STEPS) & _LOW
    return np.stack((even, odd), axis=1).reshape(4, -1)


def shares(words: Words) -> npt.NDArray[np.float64]:
    """Words as numbers from 0 to below 1: multiples of 2^-32."""
    return words.astype(np.float64) * 2.0**-32


def below(words: Words, bounds: npt.NDArray[np.int64] | int) -> npt.NDArray[np.int64]:
    """Words as whole numbers from 0 to below bounds of at most 2^31: word * bound // 2^32."""
    found: npt.NDArray[np.int64] = ((words * np.asarray(bounds).astype(np.uint64)) >> _HALF).astype(
        np.int64
    )
    return found


def normal(words: Words) -> npt.NDArray[np.float64]:
    """Words (n, NORMAL_WORDS) as n numbers with mean 0 and deviation 1, nearly normal.

    The sum of twelve uniform numbers less 6: unlike logarithms, it is the same on all machines.
    """
    total: npt.NDArray[np.float64] = shares(words).sum(axis=1) - NORMAL_WORDS / 2
    return total
