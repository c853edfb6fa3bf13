"""The loops of Winograd convolution over images, tiles and points.

Arrays:

- images, out and which (N, H', W', K) after 2x2 pooling, and their gradients, are flat memory with
  the distance of neighbouring pixels (`vectorized_ops.layout.pixels`);
- weights are (K, C, 5, 5);
- by_channel (64, C*K) and by_filter (64, K*C) are transformed weights, rows padded to whole
  vectors. Each thread has its own: fetching them from another core takes longer than making them.

A block is one tile of one vector of LANES images. Its points are (64, C', LANES) of the images and
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

from vectorized_ops.numba.compiling.compiler import kernel, parallel_kernel
from vectorized_ops.numba.emit.gradient_store import cut_tile
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.emit.raw_arrays import flattened
from vectorized_ops.numba.emit.threads import part
from vectorized_ops.numba.kernels.convolution.dot_tiles import (
    DOT_COLUMNS,
    DOT_ROWS,
    dot_tile,
    product_tile,
)
from vectorized_ops.numba.kernels.convolution.winograd_pooled_transforms import (
    OUTPUTS,
    POINTS,
    TAPS,
    input_gradient_tile,
    input_tile,
    kernels_tile,
    pooled_gradient_tile,
    pooled_output_tile,
    weights_points_tile,
)
from vectorized_ops.numba.kernels.convolution.winograd_transforms import square_taps_tile

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
def transform_weights(weights: Any, places: Any, out: Any) -> None:
    """Write points (64, pairs) of flat weights; each pair of filter and channel has its place."""
    for group in range(0, out.shape[1], LANES):
        weights_points_tile(out, group, out.shape[1], weights, places, group)


@functools.cache
def forward_kernel(height: int) -> Callable[..., None]:
    """Return the kernel of `forward` whose tiles have `height` filters, one of COLUMN_ROWS."""

    @parallel_kernel
    def forward(
        maps: Any,
        images: Any,
        images_pixel: int,
        weights: Any,
        places: Any,
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

        `places` are those of all filters' weights, channel by channel, in flat `weights`. Scratch:
        by_channel (threads, 64, C*K padded), inputs (threads, 1 or more, 64, C', LANES) and
        products (threads, 1 or more, 64, K', LANES), of which the first are used.
        """
        channels, filters = maps.channels, maps.filters
        across = (maps.width - TAPS + 1) // OUTPUTS
        tiles = (maps.height - TAPS + 1) // OUTPUTS * across
        blocks, threads = maps.number // LANES * tiles, products.shape[0]
        input_rows, product_rows = inputs.shape[3], products.shape[3]
        for thread in numba.prange(threads):
            scratch, points, factors = products[thread, 0], inputs[thread, 0], by_channel[thread]
            first, last = part(blocks, thread, threads), part(blocks, thread + 1, threads)
            if first < last:
                transform_weights(weights, places, factors)
            for block in range(first, last):
                vector, tile = block // tiles, block % tiles
                y, x = tile // across, tile % across
                _transform_images(maps, images, images_pixel, vector, y, x, points)
                for point in range(SQUARE):
                    for row in range(0, filters, height):
                        k = min(row, filters - height)
                        product_tile(
                            height, 1, scratch, (point * product_rows + k) * LANES, LANES,
                            factors, point * factors.shape[1] + k, 1, filters,
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
        weights: Any,
        places: Any,
        by_filter: Any,
        taps: Any,
        products: Any,
        images_out: Any,
        out_pixel: int,
        wanted: bool,
        add: bool,
        mask: Any,
        mask_pixel: int,
        masked: bool,
    ) -> None:
        """Sum the gradients of the weights; if `wanted` write the gradient of the images.

        `taps` (threads, groups, 25, LANES) takes each thread's sum over its own images, see
        `write_weights`. `places` are those of all channels' weights, filter by filter, in flat
        `weights`. Tiles overlap in the images, so one thread does all tiles of a vector. With `add`
        the images' gradient is added; if `masked`, it becomes zero where flat `mask` is not
        positive. Scratch: inputs and products (threads, tiles, 64, C', LANES), outputs (threads,
        tiles, 64, K', LANES), points and by_filter (threads, 64, K*C padded), pairs (threads, K*C
        padded). `tables` holds the offsets of tiles in inputs and outputs, and of channels and
        filters in a point.
        """
        threads, vectors = points.shape[0], maps.number // LANES
        across = (maps.width - TAPS + 1) // OUTPUTS
        for thread in numba.prange(threads):
            points[thread] = 0.0
            start, end = part(vectors, thread, threads), part(vectors, thread + 1, threads)
            if wanted and start < end:
                transform_weights(weights, places, by_filter[thread])
            for vector in range(start, end):
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
                            maps, by_filter[thread, point], outputs[thread], point,
                            products[thread], tables[3],
                        )  # fmt: skip
                if wanted:
                    _add_tiles(maps, products[thread], images_out, out_pixel, vector, add)
                if masked:
                    _cut(maps, images_out, out_pixel, vector, mask, mask_pixel)
            for group in range(taps.shape[1]):
                first = _first_pair(group, maps.filters * maps.channels)
                square_taps_tile(
                    OUTPUTS, TAPS, taps[thread, group], points[thread], first, points.shape[2]
                )

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
            cut_tile(images_out, place * pixel + row, mask, place * mask_pixel + row, 1)


@kernel
def _first_pair(group: int, pairs: int) -> int:
    """Return where a group of LANES pairs begins: the last overlaps the one before it."""
    return min(group * LANES, pairs - LANES)


@parallel_kernel
def write_weights(taps: Any, out: Any) -> None:
    """Write weights (K, C, 5, 5) from all threads' sums, taps (threads, groups, 25, LANES)."""
    threads, groups, pairs = taps.shape[0], taps.shape[1], out.shape[0] * out.shape[1]
    flat = flattened(out)
    for thread in numba.prange(threads):
        for group in range(part(groups, thread, threads), part(groups, thread + 1, threads)):
            total = flattened(taps[0, group])
            for other in range(1, threads):
                more = flattened(taps[other, group])
                for i in range(len(total)):
                    total[i] += more[i]
            kernels_tile(flat, _first_pair(group, pairs) * AREA, total, 0)
