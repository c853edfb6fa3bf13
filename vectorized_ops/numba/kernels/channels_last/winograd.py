"""The loops of Winograd convolution F(m x m, r x r), stride 1, of channels_last arrays.

An item is a tile of one image; its points are rows of channels. Items of a kind are in work
together: at each point they and the weights there are the two operands of a product.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from vectorized_ops.numba.compiling.compiler import parallel_kernel
from vectorized_ops.numba.compiling.tile_functions import call_tile
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.emit.non_temporal import finish_stores
from vectorized_ops.numba.emit.threads import part
from vectorized_ops.numba.kernels.channels_last.panel_tiles import ROWS
from vectorized_ops.numba.kernels.convolution.direct import block_size, weights_step
from vectorized_ops.numba.kernels.convolution.row_tiles import transpose_tile

CHANNELS_AT_ONCE = LANES
"""Channels of whose weights a thread has the taps in work together."""

GAP = 16
"""Floats between rows of points: at a power of two they would share few lines of a cache."""


class SquareTiles(NamedTuple):
    """Functions of F(m x m, r x r): by kind those of its tiles, and which points each kind has."""

    points: int
    used: Any
    inputs: Any
    outputs: Any
    wide: int
    narrow: int


@parallel_kernel
def convolve(
    tiles: Any,
    inputs: Any,
    distance: int,
    size: tuple[int, int],
    channels: int,
    weights: Any,
    bias: Any,
    out: Any,
    out_distance: int,
    out_size: tuple[int, int],
    filters: int,
    padding: tuple[int, int],
    mask: Any,
    mask_distance: int,
    mode: int,
    transformed: Any,
    products: Any,
    zeros: Any,
    at_once: int,
    items: Any,
    chunks: Any,
    parts: Any,
    lasts: Any,
) -> None:
    """Correlate: `items` (image, y, x), in `chunks` (first, number, kind).

    `lasts` are the functions of tiles of fewer rows, of two columns and of one. Thread t has the
    chunks from parts[t] to parts[t + 1]; `transformed` and `products` are scratch, a row per
    thread.
    """
    vectors = filters // LANES
    step, block = weights_step(vectors, LANES, channels), block_size(LANES, channels)
    row_in, row_out = channels + GAP, filters + GAP
    in_step, out_step = at_once * row_in + GAP, at_once * row_out + GAP
    for thread in numba.prange(len(transformed)):
        points_in, points_out = transformed[thread], products[thread]
        for chunk in range(parts[thread], parts[thread + 1]):
            first, number, kind = chunks[chunk, 0], chunks[chunk, 1], chunks[chunk, 2]
            for t in range(number):
                image, y, x = items[first + t]
                call_tile(
                    tiles.inputs[kind], points_in, t * row_in, in_step, inputs,
                    image * size[0] * size[1] * distance, y - padding[0], x - padding[1], size[0],
                    size[1], distance, zeros, 1, 0, 0, channels // LANES,
                )  # fmt: skip
            for point in range(tiles.points):
                if not tiles.used[kind, point]:
                    continue
                for vector in range(0, vectors, 2):
                    two = vector + 1 < vectors
                    for row in range(0, number, ROWS):
                        whole = row + ROWS <= number
                        if two:
                            tile = tiles.wide if whole else lasts[number % ROWS, 0]
                        else:
                            tile = tiles.narrow if whole else lasts[number % ROWS, 1]
                        call_tile(
                            tile, points_out, point * out_step + row * row_out + vector * LANES,
                            row_out, zeros, 0, 0, zeros, 0, 0, 0,
                            points_in, point * in_step + row * row_in, row_in, 1,
                            weights, point * step + vector * block, LANES, block, channels, LANES,
                            zeros, 0, 0,
                        )  # fmt: skip
            for t in range(number):
                image, y, x = items[first + t]
                pixel = (image * out_size[0] + y) * out_size[1] + x
                call_tile(
                    tiles.outputs[kind], points_out, t * row_out, out_step, bias, out,
                    pixel * out_distance, out_size[1] * out_distance, out_distance,
                    mask, pixel * mask_distance, out_size[1] * mask_distance, mask_distance, mode,
                    vectors,
                )  # fmt: skip
        finish_stores()


@parallel_kernel
def transform_both(
    tiles: Any,
    images: Any,
    distance: int,
    size: tuple[int, int],
    channels: int,
    gradient: Any,
    gradient_distance: int,
    out_size: tuple[int, int],
    filters: int,
    padding: tuple[int, int],
    image_points: Any,
    gradient_points: Any,
    zeros: Any,
    at_once: int,
    items: Any,
    first: int,
    number: int,
    kind: int,
    threads: int,
) -> None:
    """Write the points of some items of one kind, of images and of the gradient of the result."""
    row_in, row_out = channels + GAP, filters + GAP
    in_step, out_step = at_once * row_in + GAP, at_once * row_out + GAP
    for thread in numba.prange(threads):
        for t in range(part(number, thread, threads), part(number, thread + 1, threads)):
            image, y, x = items[first + t]
            call_tile(
                tiles.inputs[kind], image_points, t * row_in, in_step, images,
                image * size[0] * size[1] * distance, y - padding[0], x - padding[1], size[0],
                size[1], distance, zeros, 1, 0, 0, channels // LANES,
            )  # fmt: skip
            pixel = (image * out_size[0] + y) * out_size[1] + x
            call_tile(
                tiles.outputs[kind], gradient_points, t * row_out, out_step, gradient,
                pixel * gradient_distance, out_size[1] * gradient_distance, gradient_distance,
                filters // LANES,
            )  # fmt: skip


@parallel_kernel
def sum_points(
    tiles: Any,
    channels: int,
    filters: int,
    image_points: Any,
    gradient_points: Any,
    at_once: int,
    number: int,
    kind: int,
    last_wide: int,
    last_narrow: int,
    is_first: bool,
    sums: Any,
    zeros: Any,
    threads: int,
) -> None:
    """Add to sums (points, C, K) the products of both points of some items, or write them."""
    row_in, row_out = channels + GAP, filters + GAP
    in_step, out_step = at_once * row_in + GAP, at_once * row_out + GAP
    blocks, vectors = (channels + ROWS - 1) // ROWS, filters // LANES
    count = tiles.points * blocks
    for thread in numba.prange(threads):
        for item in range(part(count, thread, threads), part(count, thread + 1, threads)):
            point, row = item // blocks, item % blocks * ROWS
            if is_first and not tiles.used[kind, point]:
                begin = (point * channels + row) * filters
                sums[begin : begin + min(ROWS, channels - row) * filters] = np.float32(0.0)
            if not tiles.used[kind, point]:
                continue
            whole = row + ROWS <= channels
            for vector in range(0, vectors, 2):
                if vector + 1 < vectors:
                    tile = tiles.wide if whole else last_wide
                else:
                    tile = tiles.narrow if whole else last_narrow
                target = (point * channels + row) * filters + vector * LANES
                call_tile(
                    tile, sums, target, filters, zeros if is_first else sums,
                    0 if is_first else target, 0 if is_first else filters, zeros, 0, 0, 0,
                    image_points, point * in_step + row, 1, row_in,
                    gradient_points, point * out_step + vector * LANES, row_out, LANES, number,
                    LANES, zeros, 0, 0,
                )  # fmt: skip


@parallel_kernel
def deliver_taps(
    tile: int, sums: Any, channels: int, filters: int, area: int, out: Any, scratch: Any
) -> None:
    """Write sums (points, C, K) as gradients of weights (K, C, r, r), flat.

    `scratch` is (K / LANES, CHANNELS_AT_ONCE * r*r * LANES).
    """
    for vector in numba.prange(filters // LANES):
        own = scratch[vector]
        for first in range(0, channels, CHANNELS_AT_ONCE):
            for c in range(CHANNELS_AT_ONCE):
                call_tile(
                    tile, own[c * area * LANES :], sums,
                    (first + c) * filters + vector * LANES, channels * filters,
                )  # fmt: skip
            target = (vector * LANES * channels + first) * area
            for tap in range(0, CHANNELS_AT_ONCE * area, LANES):
                transpose_tile(out, target + tap, channels * area, own, tap * LANES, LANES)
