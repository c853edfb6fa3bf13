"""Vector operations on a buffer: all of its stripes, each under its lock, in one compiled call.

A kernel call takes longer than the work on a stripe of a small buffer. So one call locks, works on
and unlocks all stripes that are free. If none is free the caller waits outside the kernel.
"""

from __future__ import annotations

from knltrain.communication.memory_box.local.layout import APART_WORDS, KEY, LOCKS_BEGIN
from knltrain.communication.shared_memory.atomics import Words, give_back, read, take
from knltrain.vectors import FloatArray
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.vectors import accumulate, axpby, scale

ACCUMULATE, AXPBY, SCALE = range(3)
"""Operations: target + source, a target + b source, a target."""

FREED = -1
"""The result of `work_on_stripes` if the buffer was freed, or another one is in its place."""


@kernel
def work_on_stripes(
    operation: int,
    target: FloatArray,
    a: float,
    source: FloatArray,
    b: float,
    ends: Words,
    slot: Words,
    key: int,
    holder: int,
    first: int,
    pending: int,
    looks: int,
) -> int:
    """Apply an operation to all ``pending`` stripes; those that others have locked come last.

    Bit n of ``pending`` is stripe n, whose elements end at ``ends[n]``, (stripes,) int64. This
    process, ``holder``, begins at stripe ``first``. ``source`` is as long as ``target``. ``key`` is
    the buffer's key, compared with that in its ``slot``. Returns 0 if all is done, FREED if the
    key differs, else the stripes that are left after ``looks`` polls of one lock.
    """
    patient = False
    while pending:
        before = pending
        for number in range(ends.shape[0]):
            stripe = (first + number) % ends.shape[0]
            if not pending >> stripe & 1:
                continue
            lock = LOCKS_BEGIN + stripe * APART_WORDS
            if take(slot, lock, holder, looks if patient else 1) != 0:
                if patient:
                    return pending
                continue
            patient = False
            known = read(slot, KEY) == key
            if known:
                begin = ends[stripe - 1] if stripe else 0
                _operate(
                    operation, target[begin : ends[stripe]], a, source[begin : ends[stripe]], b
                )
            give_back(slot, lock)
            if not known:
                return FREED
            pending ^= 1 << stripe
        patient = pending == before
    return 0


@kernel
def _operate(operation: int, target: FloatArray, a: float, source: FloatArray, b: float) -> None:
    if operation == ACCUMULATE:
        accumulate(target, source)
    elif operation == AXPBY:
        axpby(target, a, source, b)
    else:
        scale(target, a)
