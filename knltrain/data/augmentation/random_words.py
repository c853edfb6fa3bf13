"""Random numbers for pictures: functions of (seed, epoch, number of the picture, what) alone.

Philox 4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC11)
turns a counter and a key into four words, for many pictures at once. All that follows is computed
so that every machine finds the same: whole numbers, and floats that need no rounding.
"""

from __future__ import annotations

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
_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_KEY_STEPS = 0x9E3779B9, 0xBB67AE85
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


@final
class RandomWords:
    """Words for the pictures `rows` (n,) in one epoch."""

    def __init__(self, draws: Draws, rows: Rows) -> None:
        numbers = rows.astype(np.uint64)
        self._low, self._high = numbers & _LOW, numbers >> _HALF
        state = np.random.SeedSequence((draws.seed, draws.epoch)).generate_state(2, np.uint32)
        self._key = int(state[0]), int(state[1])

    def __len__(self) -> int:
        return len(self._low)

    def words(self, what: int, count: int = 1) -> Words:
        """`count` words (n, count) of each picture for the decision `what`."""
        blocks = [self._block(what, i) for i in range(-(-count // 4))]
        return np.concatenate(blocks, axis=1)[:, :count]

    def _block(self, what: int, block: int) -> Words:
        count = len(self)
        counter = [
            self._low,
            self._high,
            np.full(count, what, np.uint64),
            np.full(count, block, np.uint64),
        ]
        return np.stack(philox(counter, self._key), axis=1)


def philox(counter: list[Words], key: tuple[int, int]) -> list[Words]:
    """Philox 4x32-10 of four counter words (n,) each, and two key words."""
    a, b, c, d = counter
    for turn in range(_ROUNDS):
        keys = (
            np.uint64((start + turn * step) & 0xFFFFFFFF)
            for start, step in zip(key, _KEY_STEPS, strict=True)
        )
        left, right = _MULTIPLIERS[0] * a, _MULTIPLIERS[1] * c
        first, second = keys
        a, b, c, d = (
            (right >> _HALF) ^ b ^ first,
            right & _LOW,
            (left >> _HALF) ^ d ^ second,
            left & _LOW,
        )
    return [a, b, c, d]


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
