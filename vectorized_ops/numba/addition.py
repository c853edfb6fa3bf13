"""Addition: where two branches of a network join."""

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
from vectorized_ops.numba.kernels.elementwise.tiles import sum_tile


def add(left: AnyArray, right: AnyArray, out: AnyArray, relu: bool = False) -> None:
    """See `vectorized_ops.reference.addition.add`; `out` may be `left` or `right`."""
    seen = blocks(left, right, out)
    (first, distance), (second, second_distance), (target, out_distance) = seen.arrays
    _add(
        first, distance, second, second_distance, target, out_distance, seen.number, seen.size,
        np.float32(0 if relu else -np.inf), streamed(target, out.nbytes, first, second),
        numba.get_num_threads(),
    )  # fmt: skip


@parallel_kernel
def _add(
    left: Any,
    left_distance: int,
    right: Any,
    right_distance: int,
    out: Any,
    out_distance: int,
    blocks: int,
    block: int,
    floor: Any,
    past: bool,
    threads: int,
) -> None:
    size = block // IMAGE_LANES
    for thread in numba.prange(threads):
        first, last = part(blocks * size, thread, threads), part(blocks * size, thread + 1, threads)
        while first < last:
            number, begin = first // size, first % size
            count, place = min(size - begin, last - first), begin * IMAGE_LANES
            sum_tile(
                out, number * out_distance + place, left, number * left_distance + place, right,
                number * right_distance + place, count * IMAGE_LANES // LANES, floor, past,
            )  # fmt: skip
            first += count
        finish_stores()
