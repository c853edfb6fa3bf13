"""Common parts of the kernels of collective operations: the barrier, and copying bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types

from knltrain.communication.collectives.layout import (
    ABORT_WORD,
    CALLS,
    FIRST_STATE_WORD,
    HALF_BYTES,
    SEQUENCE,
    SLOT_BYTES,
    STATE_WORDS,
)
from knltrain.communication.shared_memory.atomics import Words, publish, read, watch
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.raw_arrays import stack_vector

Seat = npt.NDArray[np.int64]
"""What a rank knows of its group, shape (3 + ranks,): rank, ranks, address of the slots.

The other elements are scratch: kernels write the addresses there of what they reduce.
"""
Addresses = npt.NDArray[np.int64]

MISMATCH = -1
"""What a kernel returns when the ranks have called different operations."""

_PAUSES = 40
_YIELDS = 800
"""Polls before a kernel gives up: with a pause after each (one or two microseconds in all), then
with a yield (some hundred). Ranks that share a core need the yields: a pause keeps the core."""

_AMID_NANOSECONDS = 2_000_000
"""How long a kernel polls in the middle of an operation, where the others are at work on it. A rank
that slept there would be late at the next barrier, the others would fall asleep in turn, and so on.
A time, not a count, since a yield of a core that many want takes long."""

_YIELDS_PER_LOOK_AT_CLOCK = 8
_CLOCK_MONOTONIC = 1
_clock_gettime: Any = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.uintp))

copy_bytes: Any = types.ExternalFunction(
    "memcpy", types.uintp(types.uintp, types.uintp, types.uintp)
)
"""memcpy(3): to, from, bytes."""


@kernel
def half(seat: Seat, rank: int, turn: int) -> int:
    """Return the address of the half of a rank's slot that turn ``turn`` writes."""
    address: int = seat[2] + rank * SLOT_BYTES + (turn & 1) * HALF_BYTES
    return address


def seat_of(rank: int, ranks: int, slots: int) -> Seat:
    """Return the seat of a rank, in a group whose slots begin at an address."""
    return np.array([rank, ranks, slots, *[0] * ranks])


@kernel
def meet(words: Words, seat: Seat, base: int, step: int) -> bool:
    """Publish that this rank has done ``step``; poll for the others, tell whether all have."""
    sequence = base + step + 1
    publish(words, FIRST_STATE_WORD + seat[0] * STATE_WORDS + SEQUENCE, sequence)
    sequences = words[FIRST_STATE_WORD + SEQUENCE :: STATE_WORDS][: seat[1]]
    abort_word = words[ABORT_WORD : ABORT_WORD + 1]
    yields = _YIELDS if step == 0 else _YIELDS_PER_LOOK_AT_CLOCK
    found = watch(sequences, abort_word, sequence, _PAUSES, yields)
    if step > 0 and 0 <= found < seat[1]:
        begin = _nanoseconds()
        while 0 <= found < seat[1] and _nanoseconds() - begin < _AMID_NANOSECONDS:
            found = watch(sequences, abort_word, sequence, 0, _YIELDS_PER_LOOK_AT_CLOCK)
    here: bool = found == seat[1]
    return here


@kernel
def _nanoseconds() -> int:
    """Return the time of the monotonic clock."""
    now = stack_vector(2, np.int64)
    _clock_gettime(_CLOCK_MONOTONIC, now.ctypes.data)
    nanoseconds: int = now[0] * 1_000_000_000 + now[1]
    return nanoseconds


@kernel
def announce(words: Words, seat: Seat, base: int, call: int) -> None:
    """Publish which operation this rank has begun; to be called before its first barrier."""
    publish(words, FIRST_STATE_WORD + seat[0] * STATE_WORDS + CALLS + (base & 1), call)


@kernel
def is_common(words: Words, seat: Seat, base: int, call: int) -> bool:
    """Tell whether all ranks have begun the same operation; valid after its first barrier."""
    for rank in range(seat[1]):
        if read(words, FIRST_STATE_WORD + rank * STATE_WORDS + CALLS + (base & 1)) != call:
            return False
    return True
