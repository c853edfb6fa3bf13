"""Affine functions of each value: one read and one write."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from vectorized_ops.layout import IMAGE_LANES, AnyArray
from vectorized_ops.numba.compiling.compiler import parallel_kernel
from vectorized_ops.numba.emit.flat_blocks import blocks
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.emit.non_temporal import finish_stores, streamed
from vectorized_ops.numba.emit.threads import part
from vectorized_ops.numba.kernels.elementwise.affine_tiles import affine_tile
from vectorized_ops.reference.affine import check_affine


class Affine:
    """See `vectorized_ops.reference.affine.Affine`; images run fastest in memory."""

    def __init__(self, factor: float, offset: float = 0.0) -> None:
        check_affine(factor, offset)
        self._factor, self._offset = np.float32(factor), np.float32(offset)

    def forward(self, inputs: AnyArray, out: AnyArray) -> None:
        """Write factor * inputs + offset; `out` may be `inputs`."""
        self._deliver(inputs, out, self._offset, False, None)

    def backward(
        self, gradient: AnyArray, out: AnyArray, add: bool = False, mask: AnyArray | None = None
    ) -> None:
        """Write, or add to `out`, factor * gradient; `out` may be `gradient` without `add`."""
        self._deliver(gradient, out, np.float32(0.0), add, mask)

    def _deliver(
        self, values: AnyArray, out: AnyArray, offset: Any, add: bool, mask: AnyArray | None
    ) -> None:
        seen = blocks(values, out, out if mask is None else mask)
        (source, distance), (target, out_distance), cut = seen.arrays
        past = not add and streamed(target, out.nbytes, source)
        _affine(
            source, distance, target, out_distance, *cut, seen.number, seen.size, self._factor,
            offset, add, mask is not None, past, numba.get_num_threads(),
        )  # fmt: skip


@parallel_kernel
def _affine(
    values: Any,
    distance: int,
    out: Any,
    out_distance: int,
    mask: Any,
    mask_distance: int,
    blocks: int,
    block: int,
    factor: Any,
    offset: Any,
    add: bool,
    masked: bool,
    past: bool,
    threads: int,
) -> None:
    size = block // IMAGE_LANES
    for thread in numba.prange(threads):
        first, last = part(blocks * size, thread, threads), part(blocks * size, thread + 1, threads)
        while first < last:
            number, begin = first // size, first % size
            count, place = min(size - begin, last - first), begin * IMAGE_LANES
            affine_tile(
                out, number * out_distance + place, mask, number * mask_distance + place, values,
                number * distance + place, count * IMAGE_LANES // LANES, factor, offset, add,
                masked, past,
            )  # fmt: skip
            first += count
        finish_stores()
