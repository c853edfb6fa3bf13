"""What one call does with the stripes of a buffer, on words and values of this process alone."""

from __future__ import annotations

import numpy as np
import pytest

from knltrain.communication.memory_box.local.layout import APART_WORDS, KEY, LOCKS_BEGIN, SLOT_WORDS
from knltrain.communication.memory_box.local.stripes import (
    ACCUMULATE,
    AXPBY,
    FREED,
    SCALE,
    work_on_stripes,
)

MINE, OTHERS, ITS_KEY, ALL = 7, 8, 5, 0b111
ENDS = np.array([16, 32, 40])


def lock_of(stripe: int) -> int:
    return LOCKS_BEGIN + stripe * APART_WORDS


def slot(*held: int) -> np.ndarray:
    """A slot, some of whose locks another process holds."""
    words = np.zeros(SLOT_WORDS, np.int64)
    words[KEY] = ITS_KEY
    for stripe in held:
        words[lock_of(stripe)] = OTHERS
    return words


def doubled(
    words: np.ndarray, target: np.ndarray, first: int = 0, pending: int = ALL, key: int = ITS_KEY
) -> int:
    return work_on_stripes(
        SCALE, target, 2.0, target, 0.0, ENDS, words, key, MINE, first, pending, 3
    )


@pytest.mark.parametrize(
    ("operation", "expected"), [(ACCUMULATE, 3 + 5), (AXPBY, 2 * 3 - 5), (SCALE, 2 * 3)]
)
@pytest.mark.parametrize("first", [0, 2])
def test_all_stripes_that_are_free_are_worked_on(
    operation: int, expected: float, first: int
) -> None:
    words, target, source = slot(), np.full(40, 3, np.float32), np.full(40, 5, np.float32)
    left = work_on_stripes(
        operation, target, 2.0, source, -1.0, ENDS, words, ITS_KEY, MINE, first, ALL, 3
    )
    assert left == 0
    assert np.all(target == expected)
    assert np.all(source == 5)
    assert np.array_equal(words, slot())


@pytest.mark.parametrize("first", [0, 1, 2])
@pytest.mark.parametrize("held", [(1,), (0, 2), (0, 1, 2)])
def test_stripes_that_another_has_are_left(held: tuple[int, ...], first: int) -> None:
    words, target = slot(*held), np.ones(40, np.float32)
    assert doubled(words, target, first) == sum(1 << stripe for stripe in held)
    for stripe, part in enumerate(np.split(target, ENDS[:-1])):
        assert np.all(part == (1 if stripe in held else 2))
    assert np.array_equal(words, slot(*held))


def test_only_pending_stripes_are_worked_on() -> None:
    target = np.ones(40, np.float32)
    assert doubled(slot(0), target, pending=0b110) == 0
    assert target.tolist() == [1] * 16 + [2] * 24


def test_another_buffer_in_the_slot_is_not_worked_on() -> None:
    words, target = slot(), np.ones(40, np.float32)
    assert doubled(words, target, key=ITS_KEY + 1) == FREED
    assert np.all(target == 1)
    assert np.array_equal(words, slot())
