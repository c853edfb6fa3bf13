"""Smooth activation functions."""

from __future__ import annotations

from typing import Any

import numba

from vectorized_ops.layout import IMAGE_LANES, AnyArray
from vectorized_ops.numba.compiling.compiler import parallel_kernel
from vectorized_ops.numba.compiling.tile_functions import call_tile
from vectorized_ops.numba.emit.bfloat16 import bfloat16_among
from vectorized_ops.numba.emit.flat_blocks import blocks
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.emit.non_temporal import finish_stores, streamed
from vectorized_ops.numba.emit.threads import part
from vectorized_ops.numba.kernels.elementwise.activation_tiles import (
    ACTIVATION,
    ACTIVATION_GRADIENT,
)
from vectorized_ops.reference.activation import check_function
from vectorized_ops.shapes import ACTIVATION_FUNCTIONS


class Activation:
    """See `vectorized_ops.reference.activation.Activation`; images run fastest in memory."""

    def __init__(self, function: str) -> None:
        check_function(function)
        self._number = ACTIVATION_FUNCTIONS.index(function)

    def forward(self, inputs: AnyArray, out: AnyArray) -> None:
        """Write the outputs."""
        seen = blocks(inputs, out)
        (source, distance), (target, out_distance) = seen.arrays
        stored = bfloat16_among(out=target, inputs=source)
        _activations(
            ACTIVATION.address(self._number, bfloat16=stored), source, distance, target,
            out_distance, seen.number, seen.size, streamed(target, out.nbytes, source),
            numba.get_num_threads(),
        )  # fmt: skip

    def backward(
        self, gradient: AnyArray, inputs: AnyArray, out: AnyArray, add: bool = False
    ) -> None:
        """Write, or add to `out`, the gradient of the inputs; `out` may be `gradient`."""
        seen = blocks(gradient, inputs, out)
        (above, above_distance), (source, distance), (target, out_distance) = seen.arrays
        past = not add and streamed(target, out.nbytes, above, source)
        stored = bfloat16_among(out=target, gradient=above, inputs=source)
        _activation_gradients(
            ACTIVATION_GRADIENT.address(self._number, bfloat16=stored), above, above_distance,
            source, distance, target, out_distance, seen.number, seen.size, add, past,
            numba.get_num_threads(),
        )  # fmt: skip


@parallel_kernel
def _activations(
    tile: int,
    inputs: Any,
    distance: int,
    out: Any,
    out_distance: int,
    blocks: int,
    block: int,
    past: bool,
    threads: int,
) -> None:
    size = block // IMAGE_LANES
    for thread in numba.prange(threads):
        first, last = part(blocks * size, thread, threads), part(blocks * size, thread + 1, threads)
        while first < last:
            number, begin = first // size, first % size
            count, place = min(size - begin, last - first), begin * IMAGE_LANES
            call_tile(
                tile, out, number * out_distance + place, inputs, number * distance + place,
                count * IMAGE_LANES // LANES, past,
            )  # fmt: skip
            first += count
        finish_stores()


@parallel_kernel
def _activation_gradients(
    tile: int,
    gradient: Any,
    gradient_distance: int,
    inputs: Any,
    distance: int,
    out: Any,
    out_distance: int,
    blocks: int,
    block: int,
    add: bool,
    past: bool,
    threads: int,
) -> None:
    size = block // IMAGE_LANES
    for thread in numba.prange(threads):
        first, last = part(blocks * size, thread, threads), part(blocks * size, thread + 1, threads)
        while first < last:
            number, begin = first // size, first % size
            count, place = min(size - begin, last - first), begin * IMAGE_LANES
            call_tile(
                tile, out, number * out_distance + place, gradient,
                number * gradient_distance + place, inputs, number * distance + place,
                count * IMAGE_LANES // LANES, add, past,
            )  # fmt: skip
            first += count
        finish_stores()
