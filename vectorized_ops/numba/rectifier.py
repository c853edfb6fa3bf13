"""Rectified linear units."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from vectorized_ops.layout import IMAGE_LANES, AnyArray
from vectorized_ops.numba.compiling.compiler import parallel_kernel
from vectorized_ops.numba.emit.flat_blocks import blocks
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.emit.non_temporal import finish_stores, streamed
from vectorized_ops.numba.emit.threads import part
from vectorized_ops.numba.kernels.elementwise.tiles import rectified_gradient_tile, rectified_tile
from vectorized_ops.reference.rectifier import check_rectifier


def relu_forward(inputs: AnyArray, out: AnyArray) -> None:
    """See `vectorized_ops.reference.rectifier.relu_forward`; `out` may be `inputs`."""
    Rectifier().forward(inputs, out)


def relu_backward(gradient: AnyArray, outputs: AnyArray, out: AnyArray) -> None:
    """See `vectorized_ops.reference.rectifier.relu_backward`; `out` may be `gradient`."""
    Rectifier().backward(gradient, outputs, out)


class Rectifier:
    """See `vectorized_ops.reference.rectifier.Rectifier`; images run fastest in memory."""

    def __init__(self, slope: float = 0.0, ceiling: float = math.inf) -> None:
        check_rectifier(slope, ceiling)
        self._slope, self._ceiling = slope, ceiling

    def forward(self, inputs: AnyArray, out: AnyArray) -> None:
        """Write the outputs; `out` may be `inputs`."""
        seen = blocks(inputs, out)
        (source, distance), (target, out_distance) = seen.arrays
        _forward(
            source, distance, target, out_distance, seen.number, seen.size,
            np.float32(self._slope), np.float32(self._ceiling),
            streamed(target, out.nbytes, source), numba.get_num_threads(),
        )  # fmt: skip

    def backward(
        self, gradient: AnyArray, outputs: AnyArray, out: AnyArray, add: bool = False
    ) -> None:
        """Write, or add to `out`, the gradient of the inputs; `out` may be `gradient`."""
        seen = blocks(gradient, outputs, out)
        (source, distance), (results, results_distance), (target, out_distance) = seen.arrays
        # Outputs are >= NaN nowhere, but an infinite output is >= an infinite ceiling.
        ceiling = self._ceiling if math.isfinite(self._ceiling) else math.nan
        past = not add and streamed(target, out.nbytes, source, results)
        _backward(
            source, distance, results, results_distance, target, out_distance, seen.number,
            seen.size, np.float32(self._slope), np.float32(ceiling), add, past,
            numba.get_num_threads(),
        )  # fmt: skip


@parallel_kernel
def _forward(
    inputs: Any,
    distance: int,
    out: Any,
    out_distance: int,
    blocks: int,
    block: int,
    slope: Any,
    ceiling: Any,
    past: bool,
    threads: int,
) -> None:
    size = block // IMAGE_LANES
    for thread in numba.prange(threads):
        first, last = part(blocks * size, thread, threads), part(blocks * size, thread + 1, threads)
        while first < last:
            number, begin = first // size, first % size
            count = min(size - begin, last - first)
            rectified_tile(
                out, number * out_distance + begin * IMAGE_LANES, inputs,
                number * distance + begin * IMAGE_LANES, count * IMAGE_LANES // LANES, slope,
                ceiling, past,
            )  # fmt: skip
            first += count
        finish_stores()


@parallel_kernel
def _backward(
    gradient: Any,
    distance: int,
    outputs: Any,
    outputs_distance: int,
    out: Any,
    out_distance: int,
    blocks: int,
    block: int,
    slope: Any,
    ceiling: Any,
    add: bool,
    past: bool,
    threads: int,
) -> None:
    size = block // IMAGE_LANES
    for thread in numba.prange(threads):
        first, last = part(blocks * size, thread, threads), part(blocks * size, thread + 1, threads)
        while first < last:
            number, begin = first // size, first % size
            count = min(size - begin, last - first)
            rectified_gradient_tile(
                out, number * out_distance + begin * IMAGE_LANES, gradient,
                number * distance + begin * IMAGE_LANES, outputs,
                number * outputs_distance + begin * IMAGE_LANES, count * IMAGE_LANES // LANES,
                slope, ceiling, add, past,
            )  # fmt: skip
            first += count
        finish_stores()
