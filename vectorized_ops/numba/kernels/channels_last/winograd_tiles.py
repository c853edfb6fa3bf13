# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""Winograd's transforms of results and gradients of channels_last arrays, as Numba intrinsics.

The lanes of a vector are neighbouring channels; that of inputs is `winograd_transforms`'. Constants
and points are as there.
"""

from __future__ import annotations

from typing import Any, Final

from numba import types

from vectorized_ops.numba.compiling.tile_functions import TileFunction
from vectorized_ops.numba.emit.flow import repeat
from vectorized_ops.numba.emit.lanes import Lanes, Value, tile
from vectorized_ops.numba.kernels.convolution.winograd_pooled_transforms import (
    square_map,
    store_points,
)
from vectorized_ops.numba.kernels.convolution.winograd_transforms import Maps, store_pixels
from vectorized_ops.winograd import transposed

_INT = types.int64


@tile
def channel_output_tile(
    typingctx: Any, outputs: Any, taps: Any, lines: Any, columns: Any, points: Any,
    points_index: Any, point: Any, bias: Any, out: Any, out_index: Any, line: Any, pixel: Any,
    mask: Any, mask_index: Any, mask_line: Any, mask_pixel: Any, mode: Any, vectors: Any,
) -> Any:  # fmt: skip
    """Write bias + A^T p A, the tile's pixels, of `vectors` vectors of points p.

    Point (i, j) begins at points[points_index + (i*n + j)*point]; pixel (i, j) goes to
    out[out_index + i*line + j*pixel]; `mode` is as in `direct_tiles`.
    """
    signature = types.void(
        outputs, taps, lines, columns, points, _INT, _INT, bias, out, *[_INT] * 3, mask,
        *[_INT] * 5,
    )  # fmt: skip
    maps = Maps(outputs, taps, lines, columns)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        source, biases = lanes.pointer(4, *args[4:6]), lanes.pointer(7, args[7])
        target, masking = lanes.pointer(8, *args[8:10]), lanes.pointer(12, *args[12:14])

        def write(vector: Value) -> None:
            lane = lanes.product(vector, lanes.width)
            points = lanes.at(source, lane)

            def load(i: int, j: int) -> Value:
                return lanes.load(lanes.at(points, lanes.product(args[6], maps.place(i, j))))

            results = square_map(lanes, maps.down.output_map, load, maps.across.output_map)
            shift = lanes.load(lanes.at(biases, lane))
            pixels = [[lanes.add(value, shift) for value in row] for row in results]
            store_pixels(
                lanes, pixels, (lanes.at(target, lane), *args[10:12]),
                (lanes.at(masking, lane), *args[14:16]), args[16],
            )  # fmt: skip

        repeat(lanes, args[17], write)
        return context.get_dummy_value()

    return signature, generate


@tile
def channel_gradient_tile(
    typingctx: Any, outputs: Any, taps: Any, lines: Any, columns: Any, out: Any, out_index: Any,
    out_point: Any, gradient: Any, gradient_index: Any, line: Any, pixel: Any, vectors: Any,
) -> Any:  # fmt: skip
    """Write A g A^T of `vectors` vectors of the tile's pixels g: the adjoint of the output's map.

    Pixel (i, j) begins at gradient[gradient_index + i*line + j*pixel]; point (i, j) goes to
    out[out_index + (i*n + j)*out_point].
    """
    signature = types.void(outputs, taps, lines, columns, out, _INT, _INT, gradient, *[_INT] * 4)
    maps = Maps(outputs, taps, lines, columns)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, source = lanes.pointer(4, *args[4:6]), lanes.pointer(7, *args[7:9])
        down, across = (transposed(it.output_map) for it in (maps.down, maps.across))

        def transform(vector: Value) -> None:
            lane = lanes.product(vector, lanes.width)

            def load(i: int, j: int) -> Value:
                place = lanes.product(args[9], i), lanes.product(args[10], j)
                return lanes.load(lanes.at(source, lane, *place))

            points = square_map(lanes, down, load, across)
            store_points(lanes, points, lanes.at(target, lane), args[6], maps.place)

        repeat(lanes, args[11], transform)
        return context.get_dummy_value()

    return signature, generate


_OF_A_MAP = ("outputs", "taps", "lines", "columns")

CHANNEL_OUTPUT: Final = TileFunction(channel_output_tile, _OF_A_MAP)
CHANNEL_GRADIENT: Final = TileFunction(channel_gradient_tile, _OF_A_MAP)
