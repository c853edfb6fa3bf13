"""The destination of a convolution's results: memory, mask, and whether to store non-temporally."""

from __future__ import annotations

from vectorized_ops.layout import AnyArray, pixels
from vectorized_ops.numba.emit.non_temporal import streamed
from vectorized_ops.numba.kernels.convolution.direct_tiles import ADD, MASK, PAST

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
    if not mode & (ADD | MASK) and streamed(target[0], 4 * out.size, source):
        mode |= PAST
    return target, masking, mode
