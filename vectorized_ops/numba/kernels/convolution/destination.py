"""The destination of a convolution's results: memory, mask, and how they are stored there."""

from __future__ import annotations

from vectorized_ops.layout import AnyArray, pixels
from vectorized_ops.numba.emit.lanes import Lanes, Value
from vectorized_ops.numba.emit.non_temporal import streamed

RELU, ADD, MASK, PAST = 1, 2, 4, 8
"""How results are written: ADD and MASK may be combined, and RELU and PAST."""

WAYS = (0, RELU, PAST, RELU | PAST, ADD, MASK, ADD | MASK)

Pixels = tuple[AnyArray, int]
"""Flat memory, and the distance of neighbouring pixels."""


def destination(
    out: AnyArray, mask: AnyArray | None, mode: int, source: AnyArray
) -> tuple[Pixels, Pixels, int]:
    """Return `out` and `mask` as kernels are given them, and `mode` with PAST where that pays.

    Without a mask `out` stands for it, its pixels on one place. `source` is the flat memory of what
    is read: results that go there, are added or masked find their lines in the cache.
    """
    target = pixels(out)
    masking = (target[0], 0) if mask is None else pixels(mask)
    if not mode & (ADD | MASK) and streamed(target[0], out.nbytes, source):
        mode |= PAST
    return target, masking, mode


def store_in_a_way(lanes: Lanes, value: Value, target: Value, mask: Value, way: int) -> None:
    """Emit the store of one vector, combined with what lies there or cut off."""
    if way & ADD:
        value = lanes.add(lanes.load(target), value)
    if way & RELU:
        value = lanes.zero_unless_positive(value, value)
    if way & MASK:
        value = lanes.zero_unless_positive(lanes.load(mask), value)
    if way & PAST:
        lanes.store_past(value, target)
    else:
        lanes.store(value, target)
