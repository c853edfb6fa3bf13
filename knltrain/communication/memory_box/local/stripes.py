"""Vector operations on a buffer: all of its stripes, each under its lock, in one compiled call.

To call a kernel takes longer than to work on a stripe of a small buffer: taking a lock, working and
giving it back are one call for all stripes that are free. Who finds none waits outside.
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
"""What `work_on_stripes` returns when it finds that the buffer is another one by now."""


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
    """Do an operation on all ``pending`` stripes, those that others have at the moment last.

    Bit n of ``pending`` is stripe n, whose elements end at ``ends[n]``, (stripes,) int64; ``first``
    is where this process, ``holder``, begins. ``source`` is as long as ``target``. The buffer is
    that of ``key`` as long as its ``slot`` says so. Returns the stripes that others would not give
    back in ``looks`` looks at one of them, 0 if all is done, or FREED.
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
