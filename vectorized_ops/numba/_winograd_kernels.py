"""The loops of Winograd convolution over images, tiles and points.

Arrays and their extents: images (C, H, W, N), out and which (K, H', W', N) after 2x2 pooling,
weights (K, C, 5, 5); by_channel (64, C*K) and by_filter (64, K*C) are transformed weights, rows
padded to whole vectors; inputs (B, 64, C, LANES) and outputs (B, 64, K, LANES) are points of
blocks, a block being one tile of LANES images; scratch arrays have one row per thread.
"""

from __future__ import annotations

from typing import Any

import numba

from vectorized_ops.numba._lanes import LANES
from vectorized_ops.numba._product import product_column
from vectorized_ops.numba._threads import part
from vectorized_ops.numba._tiles import DOT_COLUMNS, DOT_ROWS, dot_tile
from vectorized_ops.numba._winograd_tiles import (
    OUTPUTS,
    POINTS,
    TAPS,
    input_gradient_tile,
    input_tile,
    pooled_gradient_tile,
    pooled_output_tile,
    weights_gradient_tile,
    weights_tile,
)
from vectorized_ops.numba.compiler import kernel, parallel_kernel

SQUARE = POINTS * POINTS
AREA = TAPS * TAPS


@kernel
def _transform_group(weights: Any, group: int, swapped: bool, out: Any, taps: Any) -> None:
    """Transform LANES (filter, channel) pairs; `swapped` numbers them channel by channel."""
    filters, channels = weights.shape[0], weights.shape[1]
    for lane in range(LANES):
        pair = min(group * LANES + lane, filters * channels - 1)
        if swapped:
            k, c = pair % filters, pair // filters
        else:
            k, c = pair // channels, pair % channels
        for r in range(TAPS):
            for s in range(TAPS):
                taps[r * TAPS + s, lane] = weights[k, c, r, s]
    weights_tile(out, group * LANES, out.shape[1], taps)


@parallel_kernel
def transform_weights(weights: Any, by_channel: Any, by_filter: Any, taps: Any) -> None:
    """Write the points of all weights in both orders (taps: scratch (threads, 25, LANES))."""
    threads, groups = taps.shape[0], by_filter.shape[1] // LANES
    for thread in numba.prange(threads):
        for group in range(thread, groups, threads):
            _transform_group(weights, group, True, by_channel, taps[thread])
            _transform_group(weights, group, False, by_filter, taps[thread])


@parallel_kernel
def forward(
    images: Any,
    by_channel: Any,
    bias: Any,
    out: Any,
    which: Any,
    inputs: Any,
    products: Any,
    offsets: Any,
    height: int,
) -> None:
    """Convolve, add bias, keep the 2x2 maxima; `inputs` keeps the points for the backward pass."""
    channels, lines, pixels, number = images.shape
    filters, pooled_lines, pooled_pixels = out.shape[0], out.shape[1], out.shape[2]
    across = pooled_pixels * 2 // OUTPUTS
    tiles = pooled_lines * 2 // OUTPUTS * across
    threads = products.shape[0]
    for thread in numba.prange(threads):
        scratch = products[thread]
        blocks = inputs.shape[0]
        for block in range(part(blocks, thread, threads), part(blocks, thread + 1, threads)):
            vector, tile = block // tiles, block % tiles
            y, x = tile // across, tile % across
            points = inputs[block]
            for c in range(channels):
                source = ((c * lines + y * OUTPUTS) * pixels + x * OUTPUTS) * number
                input_tile(
                    points, c * LANES, channels * LANES,
                    images, source + vector * LANES, pixels * number, number,
                )  # fmt: skip
            for point in range(SQUARE):
                product_column(
                    height, filters, scratch, point * filters * LANES,
                    by_channel, point * by_channel.shape[1], filters,
                    points, point * channels * LANES, offsets, channels,
                )  # fmt: skip
            for k in range(filters):
                cell = ((k * pooled_lines + y * 2) * pooled_pixels + x * 2) * number
                pooled_output_tile(
                    out, which, cell + vector * LANES, pooled_pixels * number, number,
                    bias, k, scratch, k * LANES, filters * LANES,
                )  # fmt: skip


@parallel_kernel
def transform_gradient(gradient: Any, which: Any, outputs: Any, threads: int) -> None:
    """Write the points of the gradient of the convolution's output, spread by `which`."""
    filters, lines, pixels, number = gradient.shape
    across = pixels * 2 // OUTPUTS
    tiles = lines * 2 // OUTPUTS * across
    for thread in numba.prange(threads):
        blocks = outputs.shape[0]
        for block in range(part(blocks, thread, threads), part(blocks, thread + 1, threads)):
            vector, tile = block // tiles, block % tiles
            y, x = tile // across, tile % across
            points = outputs[block]
            for k in range(filters):
                cell = ((k * lines + y * 2) * pixels + x * 2) * number
                pooled_gradient_tile(
                    points, k * LANES, filters * LANES,
                    gradient, which, cell + vector * LANES, pixels * number, number,
                )  # fmt: skip


@parallel_kernel
def backward_data(
    outputs: Any, by_filter: Any, out: Any, products: Any, offsets: Any, height: int, tiles: int
) -> None:
    """Write the gradient of the images; tiles overlap, so one thread does all tiles of an image."""
    channels, lines, pixels, number = out.shape
    filters = outputs.shape[2]
    across = (pixels - TAPS + 1) // OUTPUTS
    threads = products.shape[0]
    for thread in numba.prange(threads):
        scratch = products[thread]
        vectors = number // LANES
        for vector in range(part(vectors, thread, threads), part(vectors, thread + 1, threads)):
            out[:, :, :, vector * LANES : (vector + 1) * LANES] = 0.0
            for tile in range(tiles):
                points = outputs[vector * tiles + tile]
                for point in range(SQUARE):
                    product_column(
                        height, channels, scratch, point * channels * LANES,
                        by_filter, point * by_filter.shape[1], channels,
                        points, point * filters * LANES, offsets, filters,
                    )  # fmt: skip
                y, x = tile // across, tile % across
                for c in range(channels):
                    target = ((c * lines + y * OUTPUTS) * pixels + x * OUTPUTS) * number
                    input_gradient_tile(
                        out, target + vector * LANES, pixels * number, number,
                        scratch, c * LANES, channels * LANES,
                    )  # fmt: skip


@kernel
def _multiply_points(
    inputs: Any,
    outputs: Any,
    input_offsets: Any,
    output_offsets: Any,
    channel_rows: Any,
    points: Any,
    filters: int,
    channels: int,
) -> None:
    for point in range(SQUARE):
        for row in range(0, filters, DOT_ROWS):
            k = min(row, filters - DOT_ROWS)
            for column in range(0, channels, DOT_COLUMNS):
                c = min(column, channels - DOT_COLUMNS)
                dot_tile(
                    points, point * points.shape[1] + k * channels + c, channels,
                    outputs, (point * filters + k) * LANES, LANES, output_offsets,
                    inputs, point * channels * LANES, channel_rows, c, input_offsets,
                    len(output_offsets),
                )  # fmt: skip


@kernel
def _transform_back(points: Any, group: int, out: Any, taps: Any) -> None:
    """Write the weight gradients of LANES (filter, channel) pairs from all threads' points."""
    channels, first = out.shape[1], group * LANES
    for other in range(1, points.shape[0]):
        points[0, :, first : first + LANES] += points[other, :, first : first + LANES]
    weights_gradient_tile(taps, points, first, points.shape[2])
    for lane in range(min(LANES, out.shape[0] * channels - group * LANES)):
        pair = group * LANES + lane
        for r in range(TAPS):
            for s in range(TAPS):
                out[pair // channels, pair % channels, r, s] = taps[r * TAPS + s, lane]


@parallel_kernel
def backward_weights(
    inputs: Any,
    outputs: Any,
    input_offsets: Any,
    output_offsets: Any,
    channel_rows: Any,
    points: Any,
    out: Any,
    taps: Any,
) -> None:
    """Write the weights' gradient: per point a product over images and tiles, then G^T p G.

    `points` (threads, 64, K*C rounded up) takes the sum over each thread's own images.
    """
    threads, blocks = taps.shape[0], len(output_offsets)
    for thread in numba.prange(threads):
        first, last = part(blocks, thread, threads), part(blocks, thread + 1, threads)
        if first == last:
            points[thread] = 0.0
        else:
            _multiply_points(
                inputs, outputs, input_offsets[first:last], output_offsets[first:last],
                channel_rows, points[thread], out.shape[0], out.shape[1],
            )  # fmt: skip
    for thread in numba.prange(threads):
        for group in range(thread, points.shape[2] // LANES, threads):
            _transform_back(points, group, out, taps[thread])
