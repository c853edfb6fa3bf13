from __future__ import annotations

import numpy as np

from knltrain.communication.collectives.kernel_barrier import (
    announce,
    copy_bytes,
    half,
    is_common,
    meet,
    seat_of,
)
from knltrain.communication.collectives.layout import (
    FIRST_STATE_WORD,
    HALF_BYTES,
    SLOT_BYTES,
    STATE_WORDS,
    state_word,
)
from vectorized_ops.numba.compiling.compiler import kernel

SEATS = [seat_of(rank, 2, 10_000_000) for rank in range(2)]


def words() -> np.ndarray:
    return np.zeros(FIRST_STATE_WORD + 2 * STATE_WORDS, np.int64)


def test_ranks_meet_when_both_have_come_as_far() -> None:
    shared = words()
    assert not meet(shared, SEATS[0], 0, 2)
    assert meet(shared, SEATS[1], 0, 2)
    assert meet(shared, SEATS[0], 0, 1)
    assert not meet(shared, SEATS[1], 0, 3)


def test_meeting_ends_when_the_group_is_broken() -> None:
    shared = words()
    shared[16] = 1
    assert not meet(shared, SEATS[0], 0, 0)


def test_calls_are_compared_turn_by_turn() -> None:
    shared = words()
    announce(shared, SEATS[0], 5, 77)
    announce(shared, SEATS[1], 5, 77)
    announce(shared, SEATS[1], 6, 78)
    assert is_common(shared, SEATS[0], 5, 77)
    assert not is_common(shared, SEATS[0], 6, 78)


def test_halves_of_a_slot_take_turns() -> None:
    begin = 10_000_000 + SLOT_BYTES
    assert [half(SEATS[0], 1, turn) for turn in (4, 5, 6)] == [begin, begin + HALF_BYTES, begin]


def test_kernels_move_bytes_as_memcpy() -> None:
    @kernel
    def move(target: int, source: int, bytes_: int) -> None:
        copy_bytes(target, source, bytes_)

    source, target = np.arange(100, dtype=np.uint8), np.zeros(100, np.uint8)
    move(target.ctypes.data + 1, source.ctypes.data, 50)
    assert target.tolist() == [0, *range(50), *[0] * 49]


def test_states_lie_where_the_layout_has_them() -> None:
    shared = words()
    meet(shared, SEATS[1], 0, 8)
    assert shared[state_word(1)] == 9
