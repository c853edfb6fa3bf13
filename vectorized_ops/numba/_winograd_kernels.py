"""The loops of Winograd convolution over images, tiles and points.

Images, out and which (N, H', W', K) after 2x2 pooling, and their gradients, are flat memory with
the distance of neighbouring pixels (`vectorized_ops.layout.pixels`); weights (K, C, 5, 5);
by_channel (64, C*K) and by_filter (64, K*C) are transformed weights, rows padded to whole vectors.
A block is one tile of one vector of LANES images; its points are (64, C', LANES) of the images and
(64, K', LANES) of the gradient, C' being C made odd (see `point_rows`). They are scratch, one row
per thread, and small enough to stay in its cache: transforming the images again costs less than
keeping the points.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np

from vectorized_ops.numba._lanes import LANES
from vectorized_ops.numba._square_tiles import square_taps_tile, square_weights_tile
from vectorized_ops.numba._threads import part
from vectorized_ops.numba._tiles import DOT_COLUMNS, DOT_ROWS, dot_tile, product_tile
from vectorized_ops.numba._winograd_tiles import (
    OUTPUTS,
    POINTS,
    TAPS,
    input_gradient_tile,
    input_tile,
    pooled_gradient_tile,
    pooled_output_tile,
)
from vectorized_ops.numba.compiler import kernel, parallel_kernel

SQUARE = POINTS * POINTS
AREA = TAPS * TAPS


class Maps(NamedTuple):
    """Extents of a pooled convolution: N in whole vectors, H and W of the images, C and K."""

    number: int
    height: int
    width: int
    channels: int
    filters: int


def point_rows(number: int) -> int:
    """Return the rows of LANES floats from one point to the next, `number` of them being used.

    Of odd numbers all points of a vector are in different sets of a cache.
    """
    return number | 1


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
    square_weights_tile(OUTPUTS, TAPS, out, group * LANES, out.shape[1], taps)


@parallel_kernel
def transform_weights(weights: Any, by_channel: Any, by_filter: Any, taps: Any) -> None:
    """Write the points of all weights in both orders (taps: scratch (threads, 25, LANES))."""
    threads, groups = taps.shape[0], by_filter.shape[1] // LANES
    for thread in numba.prange(threads):
        for group in range(thread, groups, threads):
            _transform_group(weights, group, True, by_channel, taps[thread])
            _transform_group(weights, group, False, by_filter, taps[thread])


@functools.cache
def forward_kernel(height: int) -> Callable[..., None]:
    """Return the kernel of `forward` whose tiles have `height` filters, one of COLUMN_ROWS."""

    @parallel_kernel
    def forward(
        maps: Any,
        images: Any,
        images_pixel: int,
        by_channel: Any,
        bias: Any,
        out: Any,
        out_pixel: int,
        which: Any,
        which_pixel: int,
        inputs: Any,
        products: Any,
        offsets: Any,
    ) -> None:
        """Convolve, add bias, keep the 2x2 maxima.

        Scratch: inputs (threads, 64, C', LANES) and products (threads, 64, K', LANES).
        """
        channels, filters = maps.channels, maps.filters
        across = (maps.width - TAPS + 1) // OUTPUTS
        tiles = (maps.height - TAPS + 1) // OUTPUTS * across
        blocks, threads = maps.number // LANES * tiles, products.shape[0]
        input_rows, product_rows = inputs.shape[2], products.shape[2]
        for thread in numba.prange(threads):
            scratch, points = products[thread], inputs[thread]
            for block in range(part(blocks, thread, threads), part(blocks, thread + 1, threads)):
                vector, tile = block // tiles, block % tiles
                y, x = tile // across, tile % across
                _transform_images(maps, images, images_pixel, vector, y, x, points)
                for point in range(SQUARE):
                    for row in range(0, filters, height):
                        k = min(row, filters - height)
                        product_tile(
                            height, 1, scratch, (point * product_rows + k) * LANES, LANES,
                            by_channel, point * by_channel.shape[1] + k, 1, filters,
                            points, point * input_rows * LANES, offsets, channels,
                        )  # fmt: skip
                _pool(maps, scratch, vector, y, x, bias, out, out_pixel, which, which_pixel)

    return forward


@kernel
def _transform_images(
    maps: Any, images: Any, pixel: int, vector: int, y: int, x: int, points: Any
) -> None:
    """Write the points of tile (y, x) of one vector of images, (64, C', LANES)."""
    channels = maps.channels
    corner = (y * maps.width + x) * OUTPUTS * pixel + vector * LANES
    for c in range(channels):
        input_tile(
            points, c * LANES, points.shape[1] * LANES,
            images, corner + c * maps.number, maps.width * pixel, pixel,
        )  # fmt: skip


@kernel
def _pool(
    maps: Any,
    products: Any,
    vector: int,
    y: int,
    x: int,
    bias: Any,
    out: Any,
    out_pixel: int,
    which: Any,
    which_pixel: int,
) -> None:
    """Write the 2x2 cells of tile (y, x) of one vector of images, for all filters."""
    filters, across = maps.filters, (maps.width - TAPS + 1) // 2
    cell = (y * across + x) * 2
    for k in range(filters):
        row = k * maps.number + vector * LANES
        pooled_output_tile(
            out, cell * out_pixel + row, across * out_pixel, out_pixel,
            which, cell * which_pixel + row, across * which_pixel, which_pixel,
            bias, k, products, k * LANES, products.shape[1] * LANES,
        )  # fmt: skip


@kernel
def _transform_gradient(
    maps: Any,
    gradient: Any,
    pixel: int,
    which: Any,
    which_pixel: int,
    vector: int,
    y: int,
    x: int,
    points: Any,
) -> None:
    """Write the points (64, K', LANES) of the gradient of tile (y, x), spread by `which`."""
    filters, across = maps.filters, (maps.width - TAPS + 1) // 2
    cell = (y * across + x) * 2
    for k in range(filters):
        row = k * maps.number + vector * LANES
        pooled_gradient_tile(
            gradient, cell * pixel + row, across * pixel, pixel,
            which, cell * which_pixel + row, across * which_pixel, which_pixel,
            points, k * LANES, points.shape[1] * LANES,
        )  # fmt: skip


@functools.cache
def backward_kernel(height: int) -> Callable[..., None]:
    """Return the kernel of `backward` whose tiles have `height` channels, one of COLUMN_ROWS."""

    @kernel
    def multiply_weights(
        maps: Any, weights: Any, outputs: Any, point: int, products: Any, filter_rows: Any
    ) -> None:
        """Write one point of the images' gradient for all tiles of a vector."""
        channels, filters = maps.channels, maps.filters
        product_rows, output_rows = products.shape[2], outputs.shape[2]
        for tile in range(outputs.shape[0]):
            for row in range(0, channels, height):
                c = min(row, channels - height)
                product_tile(
                    height, 1, products[tile], (point * product_rows + c) * LANES, LANES,
                    weights, c, 1, channels,
                    outputs[tile], point * output_rows * LANES, filter_rows, filters,
                )  # fmt: skip

    @parallel_kernel
    def backward(
        maps: Any,
        images: Any,
        images_pixel: int,
        gradient: Any,
        gradient_pixel: int,
        which: Any,
        which_pixel: int,
        inputs: Any,
        outputs: Any,
        points: Any,
        pairs: Any,
        tables: Any,
        by_filter: Any,
        products: Any,
        images_out: Any,
        out_pixel: int,
        wanted: bool,
        add: bool,
        mask: Any,
        mask_pixel: int,
        masked: bool,
    ) -> None:
        """Sum the points of the weights' gradient; if `wanted` write the gradient of the images.

        `points` (threads, 64, K*C padded) takes each thread's sum over its own images. Tiles
        overlap in the images, so one thread does all tiles of a vector. With `add` the images'
        gradient is added; if `masked`, it becomes zero where flat `mask` is not positive. Scratch:
        inputs and products (threads, tiles, 64, C', LANES), outputs (threads, tiles, 64, K',
        LANES), pairs (threads, K*C padded). `tables` holds the offsets of tiles in inputs and
        outputs, and of channels and filters in a point.
        """
        threads, vectors = points.shape[0], maps.number // LANES
        across = (maps.width - TAPS + 1) // OUTPUTS
        for thread in numba.prange(threads):
            points[thread] = 0.0
            for vector in range(part(vectors, thread, threads), part(vectors, thread + 1, threads)):
                for tile in range(inputs.shape[1]):
                    y, x = tile // across, tile % across
                    _transform_images(
                        maps, images, images_pixel, vector, y, x, inputs[thread, tile]
                    )
                    _transform_gradient(
                        maps, gradient, gradient_pixel, which, which_pixel, vector, y, x,
                        outputs[thread, tile],
                    )  # fmt: skip
                for point in range(SQUARE):
                    _multiply_pairs(
                        maps, inputs[thread], outputs[thread], point, points[thread, point],
                        pairs[thread], tables,
                    )  # fmt: skip
                    if wanted:
                        multiply_weights(
                            maps, by_filter[point], outputs[thread], point, products[thread],
                            tables[3],
                        )  # fmt: skip
                if wanted:
                    _add_tiles(maps, products[thread], images_out, out_pixel, vector, add)
                if masked:
                    _cut(maps, images_out, out_pixel, vector, mask, mask_pixel)

    return backward


@kernel
def _multiply_pairs(
    maps: Any, inputs: Any, outputs: Any, point: int, sums: Any, pairs: Any, tables: Any
) -> None:
    """Add to `sums` (K*C padded) the products of all filters and channels over tiles and lanes."""
    channels, filters = maps.channels, maps.filters
    tile_inputs, tile_outputs, channel_rows, _ = tables
    for row in range(0, filters, DOT_ROWS):
        k = min(row, filters - DOT_ROWS)
        for column in range(0, channels, DOT_COLUMNS):
            c = min(column, channels - DOT_COLUMNS)
            dot_tile(
                pairs, k * channels + c, channels,
                outputs, (point * outputs.shape[2] + k) * LANES, LANES, tile_outputs,
                inputs, point * inputs.shape[2] * LANES, channel_rows, c, tile_inputs,
                len(tile_inputs),
            )  # fmt: skip
    for pair in range(len(sums)):
        sums[pair] += pairs[pair]


@kernel
def _add_tiles(maps: Any, points: Any, images_out: Any, pixel: int, vector: int, add: bool) -> None:
    """Write or add the gradient of a vector of images from the points of its overlapping tiles."""
    channels, across = maps.channels, (maps.width - TAPS + 1) // OUTPUTS
    if not add:
        for place in range(maps.height * maps.width):
            for c in range(channels):
                begin = place * pixel + c * maps.number + vector * LANES
                for lane in range(LANES):
                    images_out[begin + lane] = np.float32(0.0)
    for tile in range(points.shape[0]):
        corner = (tile // across * maps.width + tile % across) * OUTPUTS * pixel
        for c in range(channels):
            input_gradient_tile(
                images_out, corner + c * maps.number + vector * LANES, maps.width * pixel, pixel,
                points[tile], c * LANES, points.shape[2] * LANES,
            )  # fmt: skip


@kernel
def _cut(maps: Any, images_out: Any, pixel: int, vector: int, mask: Any, mask_pixel: int) -> None:
    """Write zero where the mask is not positive, in one vector of images."""
    for place in range(maps.height * maps.width):
        for c in range(maps.channels):
            row = c * maps.number + vector * LANES
            values = images_out[place * pixel + row :][:LANES]
            passed = mask[place * mask_pixel + row :][:LANES]
            for lane in range(LANES):
                values[lane] = np.float32(0.0) if passed[lane] <= 0 else values[lane]


@kernel
def _transform_back(points: Any, group: int, out: Any, taps: Any) -> None:
    """Write the weight gradients of LANES (filter, channel) pairs from all threads' points."""
    first, pairs = group * LANES, out.shape[0] * out.shape[1]
    for other in range(1, points.shape[0]):
        for point in range(points.shape[1]):
            for lane in range(LANES):
                points[0, point, first + lane] += points[other, point, first + lane]
    square_taps_tile(OUTPUTS, TAPS, taps, points, first, points.shape[2])
    flat = out.reshape(pairs, AREA)
    for lane in range(min(LANES, pairs - first)):
        for tap in range(AREA):
            flat[first + lane, tap] = taps[tap, lane]


@parallel_kernel
def transform_back(points: Any, out: Any, taps: Any) -> None:
    """Write the gradient of the weights, G^T p G, from the threads' sums of its points p."""
    threads = taps.shape[0]
    for thread in numba.prange(threads):
        for group in range(thread, points.shape[2] // LANES, threads):
            _transform_back(points, group, out, taps[thread])
