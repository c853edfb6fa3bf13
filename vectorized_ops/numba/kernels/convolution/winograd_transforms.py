# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""Winograd's transforms of F(m x m, r x r) on memory (H, W, C, N), as Numba intrinsics.

m is called `outputs` here, r `taps`. A tile of inputs has n x n pixels, n = m + r - 1. Every vector
of its channels and images is transformed the same way to n*n points. Bounds are the caller's
responsibility, but pixels outside the image are read as zeros.

A tile has `lines` x `columns` output pixels: m x m, or fewer at the lower and right ends of a map
(see `winograd_edge_tiles`). Such a tile has fewer of the n*n points, at the same places; the other
places are not written. All four numbers are compile-time constants.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from numba import types

from vectorized_ops.numba.compiling.tile_functions import TileFunction
from vectorized_ops.numba.emit.flow import repeat
from vectorized_ops.numba.emit.lanes import Lanes, Value, tile
from vectorized_ops.numba.kernels.convolution.destination import WAYS, store_in_a_way
from vectorized_ops.numba.kernels.convolution.winograd_pooled_transforms import (
    square_map,
    store_points,
)
from vectorized_ops.winograd import transposed, winograd_transform

Pixels = tuple[Value, Value, Value]
"""Where the first pixel of a tile lies, and how far lines and pixels are apart."""


class Maps:
    """The maps of a tile, from its constants: down, across, and where its points lie."""

    def __init__(self, outputs: Any, taps: Any, lines: Any, columns: Any) -> None:
        self.outputs = int(outputs.literal_value)
        self._side = self.outputs + int(taps.literal_value) - 1
        self.down, self.across = (
            winograd_transform(self.outputs, taps.literal_value, it.literal_value)
            for it in (lines, columns)
        )

    def place(self, i: int, j: int) -> int:
        """Return which of all n*n points is (i, j) of the tile's."""
        return self.down.numbers[i] * self._side + self.across.numbers[j]


@tile
def square_input_tile(
    typingctx: Any, outputs: Any, taps: Any, lines: Any, columns: Any, out: Any, out_index: Any,
    out_point: Any, images: Any, images_index: Any, y: Any, x: Any, height: Any, width: Any,
    distance: Any, zeros: Any, channels: Any, channel: Any, out_channel: Any, vectors: Any,
) -> Any:  # fmt: skip
    """Write B^T d B of `channels` x `vectors` vectors of the n x n pixels d from (y, x) on.

    Pixel (i, j) begins at images[images_index + (i*width + j)*distance], its channel c `channel`
    floats behind the one before; it is read from `zeros` if it is outside [0, height) x [0, width).
    Point (i, j) goes to out[out_index + (i*n + j)*out_point + c*out_channel].
    """
    index = types.int64
    signature = types.void(
        outputs, taps, lines, columns, out, index, index, images, *[index] * 6, zeros, *[index] * 4
    )
    maps = Maps(outputs, taps, lines, columns)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, nothing = lanes.pointer(4, args[4], args[5]), lanes.pointer(14, args[14])

        def source(i: int, j: int) -> Value:
            line = builder.add(args[9], lanes.integer(i))
            column = builder.add(args[10], lanes.integer(j))
            pixel = builder.add(lanes.product(line, args[12]), column)
            place = lanes.pointer(7, args[7], args[8], lanes.product(pixel, args[13]))
            inside = builder.and_(lanes.inside(line, args[11]), lanes.inside(column, args[12]))
            return builder.select(inside, place, nothing)

        sources = [
            [source(i, j) for j in range(maps.across.points)] for i in range(maps.down.points)
        ]

        def transform(channel: Value, vector: Value) -> None:
            begin, shift = lanes.product(channel, args[16]), lanes.product(vector, lanes.width)
            own = lanes.at(target, lanes.product(channel, args[17]), shift)

            def load(i: int, j: int) -> Value:
                return lanes.load(lanes.at(sources[i][j], begin, shift))

            points = square_map(lanes, maps.down.input_map, load, maps.across.input_map)
            store_points(lanes, points, own, args[6], maps.place)

        repeat(lanes, args[15], lambda c: repeat(lanes, args[18], partial(transform, c)))
        return context.get_dummy_value()

    return signature, generate


@tile
def square_output_tile(
    typingctx: Any, outputs: Any, taps: Any, lines: Any, columns: Any, points: Any,
    points_index: Any, point: Any, bias: Any, out: Any, out_index: Any, line: Any, pixel: Any,
    mask: Any, mask_index: Any, mask_line: Any, mask_pixel: Any, mode: Any, filters: Any,
    filter_points: Any, filter_results: Any, vectors: Any,
) -> Any:  # fmt: skip
    """Write bias + A^T p A, the tile's pixels, of `filters` x `vectors` vectors of points p.

    Filter k begins `filter_points` floats behind the one before in `points`, `filter_results`
    floats in `out` and `mask`, and its bias is bias[k]. Pixel (i, j) goes to
    out[out_index + i*line + j*pixel]; `mode` is as in `direct_tiles`.
    """
    index = types.int64
    signature = types.void(
        outputs, taps, lines, columns, points, index, index, bias, out, *[index] * 3, mask,
        *[index] * 8,
    )  # fmt: skip
    maps = Maps(outputs, taps, lines, columns)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        source, biases = lanes.pointer(4, *args[4:6]), lanes.pointer(7, args[7])
        target, masking = lanes.pointer(8, *args[8:10]), lanes.pointer(12, *args[12:14])

        def write(filter_: Value, vector: Value) -> None:
            number, lane = lanes.product(filter_, args[19]), lanes.product(vector, lanes.width)
            points = lanes.at(source, lanes.product(filter_, args[18]), lane)

            def load(i: int, j: int) -> Value:
                return lanes.load(lanes.at(points, lanes.product(args[6], maps.place(i, j))))

            results = square_map(lanes, maps.down.output_map, load, maps.across.output_map)
            shift = lanes.broadcast(lanes.at(biases, filter_))
            pixels = [[lanes.add(value, shift) for value in row] for row in results]
            store_pixels(
                lanes, pixels, (lanes.at(target, number, lane), *args[10:12]),
                (lanes.at(masking, number, lane), *args[14:16]), args[16],
            )  # fmt: skip

        repeat(lanes, args[17], lambda k: repeat(lanes, args[20], partial(write, k)))
        return context.get_dummy_value()

    return signature, generate


def store_pixels(
    lanes: Lanes, results: list[list[Value]], target: Pixels, mask: Pixels, mode: Value
) -> None:
    """Emit the stores of a tile's pixels, each to its place by a mask at its place."""

    def at(pixels: Pixels, i: int, j: int) -> Value:
        begin, line, pixel = pixels
        return lanes.at(begin, lanes.product(line, i), lanes.product(pixel, j))

    def store(way: int) -> None:
        for i, row in enumerate(results):
            for j, value in enumerate(row):
                store_in_a_way(lanes, value, at(target, i, j), at(mask, i, j), way)

    lanes.choose(mode, WAYS, store)


@tile
def square_weights_tile(
    typingctx: Any, outputs: Any, taps: Any, out: Any, out_index: Any, out_point: Any, weights: Any,
    weights_index: Any,
) -> Any:  # fmt: skip
    """Write G g G^T of the r x r vectors g, which lie from weights[weights_index] on.

    Point (i, j) goes to out[out_index + (i*n + j)*out_point].

    Whole vectors are written, however many of their lanes are wanted.
    """
    index = types.int64
    signature = types.void(outputs, taps, out, index, index, weights, index)
    transform = winograd_transform(outputs.literal_value, taps.literal_value)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes, side = Lanes(context, builder, signature), transform.taps
        target = lanes.pointer(2, args[2], args[3])

        def load(i: int, j: int) -> Value:
            return lanes.load(lanes.pointer(5, args[5], args[6], (i * side + j) * lanes.width))

        store_points(lanes, square_map(lanes, transform.weights_map, load), target, args[4])
        return context.get_dummy_value()

    return signature, generate


@tile
def square_gradient_tile(
    typingctx: Any, outputs: Any, taps: Any, lines: Any, columns: Any, pairs: Any, out: Any,
    out_index: Any, out_point: Any, pixels: Any, pixel: Any, vectors: Any, row: Any,
) -> Any:  # fmt: skip
    """Write A g A^T of `vectors` vectors of the tile's pixels g, at pixels[(i*m + j)*pixel].

    Point (i, j) goes to out[out_index + (i*n + j)*out_point]. The adjoint of the output's map.
    With `pairs`, twice as many vectors are read, in rows of `row` vectors: what is written are
    pairs of bfloat16, of a row and of the row behind it.
    """
    index = types.int64
    signature = types.void(
        outputs, taps, lines, columns, pairs, out, index, index, pixels, index, index, index
    )
    maps = Maps(outputs, taps, lines, columns)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, source = lanes.pointer(5, args[5], args[6]), lanes.pointer(8, args[8])
        down, across = (transposed(it.output_map) for it in (maps.down, maps.across))

        def points_of(vector: Value) -> list[list[Value]]:
            def load(i: int, j: int) -> Value:
                place = lanes.product(args[9], i * maps.outputs + j)
                return lanes.load(lanes.at(source, lanes.product(vector, lanes.width), place))

            return square_map(lanes, down, load, across)

        def transform(vector: Value) -> None:
            if pairs.literal_value:
                above = lanes.product(builder.udiv(vector, args[11]), args[11])
                first = lanes.sum(vector, above)
                lines = zip(points_of(first), points_of(lanes.sum(first, args[11])), strict=True)
                points = [
                    [lanes.as_pairs(*both) for both in zip(*line, strict=True)] for line in lines
                ]
            else:
                points = points_of(vector)
            place = lanes.at(target, lanes.product(vector, lanes.width))
            store_points(lanes, points, place, args[7], maps.place)

        repeat(lanes, args[10], transform)
        return context.get_dummy_value()

    return signature, generate


@tile
def square_taps_tile(
    typingctx: Any, outputs: Any, taps: Any, weights: Any, sums: Any, sums_index: Any,
    sums_point: Any,
) -> Any:  # fmt: skip
    """Write G^T s G of the n x n vectors s, at sums[sums_index + (i*n + j)*sums_point].

    `weights` (r*r, LANES) are their gradients: the adjoint of the weights' map.
    """
    index = types.int64
    signature = types.void(outputs, taps, weights, sums, index, index)
    transform = winograd_transform(outputs.literal_value, taps.literal_value)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes, size = Lanes(context, builder, signature), transform.points
        source = lanes.pointer(3, args[3], args[4])

        def load(i: int, j: int) -> Value:
            return lanes.load(lanes.at(source, lanes.product(args[5], i * size + j)))

        weights = square_map(lanes, transposed(transform.weights_map), load)
        store_points(lanes, weights, lanes.pointer(2, args[2]), lanes.width)
        return context.get_dummy_value()

    return signature, generate


_OF_A_MAP = ("outputs", "taps", "lines", "columns")

SQUARE_INPUT: Final = TileFunction(square_input_tile, _OF_A_MAP)
SQUARE_OUTPUT: Final = TileFunction(square_output_tile, _OF_A_MAP)
SQUARE_WEIGHTS: Final = TileFunction(square_weights_tile, _OF_A_MAP[:2])
SQUARE_GRADIENT: Final = TileFunction(square_gradient_tile, (*_OF_A_MAP, "pairs"))
SQUARE_TAPS: Final = TileFunction(square_taps_tile, _OF_A_MAP[:2])
