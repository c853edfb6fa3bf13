# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""Winograd's transforms of F(m x m, r x r) on memory (H, W, C, N), as Numba intrinsics.

m is called `outputs` here, r `taps`. A tile of inputs are n x n pixels, n = m + r - 1; every vector
of its channels and images is mapped the same way to n*n points. Bounds are the caller's business,
but pixels outside the image are read as zeros. At the lower and right ends of a map tiles may have
only `lines` or `columns` of the m pixels: `kind` tells at run time (see `_ends`). These have fewer
of the n*n points, at the same places; the others' places are left as they are.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from numba import types

from vectorized_ops.numba._correlation_tiles import WAYS, store_in_a_way
from vectorized_ops.numba._ends import Ends, kinds, transforms
from vectorized_ops.numba._lanes import Lanes, Value, tile
from vectorized_ops.numba._winograd_tiles import square_map, store_points
from vectorized_ops.winograd import WinogradTransform, transposed, winograd_transform


class _Kinds:
    """The kinds of tiles that a tile's code is emitted for, from its literal arguments."""

    def __init__(self, outputs: Any, taps: Any, lines: Any, columns: Any) -> None:
        self.outputs, self._taps = int(outputs.literal_value), int(taps.literal_value)
        self._ends = Ends(lines.literal_value, columns.literal_value)
        self.kinds = kinds(self.outputs, self._ends)

    def transforms(self, kind: int) -> tuple[WinogradTransform, WinogradTransform]:
        """Return the maps of a kind, down and across."""
        return transforms(self.outputs, self._taps, self._ends, kind)

    def place(self, kind: int, i: int, j: int) -> int:
        """Return which of all n*n points is (i, j) of a kind."""
        down, across = self.transforms(kind)
        return down.numbers[i] * (self.outputs + self._taps - 1) + across.numbers[j]


@tile
def square_input_tile(
    typingctx: Any, outputs: Any, taps: Any, lines: Any, columns: Any, kind: Any, out: Any,
    out_index: Any, out_point: Any, images: Any, images_index: Any, y: Any, x: Any, height: Any,
    width: Any, distance: Any, zeros: Any, channels: Any, channel: Any, out_channel: Any,
    vectors: Any,
) -> Any:  # fmt: skip
    """Write B^T d B of `channels` x `vectors` vectors of the n x n pixels d from (y, x) on.

    Pixel (i, j) begins at images[images_index + (i*width + j)*distance], its channel c `channel`
    floats behind the one before; it is read from `zeros` if it is outside [0, height) x [0, width).
    Point (i, j) goes to out[out_index + (i*n + j)*out_point + c*out_channel].
    """
    index = types.int64
    signature = types.void(
        outputs, taps, lines, columns, index, out, index, index, images, *[index] * 6, zeros,
        *[index] * 4,
    )  # fmt: skip
    made = _Kinds(outputs, taps, lines, columns)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, nothing = lanes.pointer(5, args[5], args[6]), lanes.pointer(15, args[15])

        def source(line: Value, column: Value) -> Value:
            pixel = builder.add(lanes.product(line, args[13]), column)
            place = lanes.pointer(8, args[8], args[9], lanes.product(pixel, args[14]))
            inside = builder.and_(lanes.inside(line, args[12]), lanes.inside(column, args[13]))
            return builder.select(inside, place, nothing)

        def emit(kind: int) -> None:
            down, across = made.transforms(kind)
            sources = [
                [
                    source(
                        builder.add(args[10], lanes.integer(i)),
                        builder.add(args[11], lanes.integer(j)),
                    )
                    for j in range(across.points)
                ]
                for i in range(down.points)
            ]

            def channel(c: Value, _: list[Value]) -> list[Value]:
                begin = lanes.product(c, args[17])
                own = lanes.at(target, lanes.product(c, args[18]))

                def vector(number: Value, _: list[Value]) -> list[Value]:
                    shift = lanes.product(number, lanes.width)

                    def load(i: int, j: int) -> Value:
                        return lanes.load(lanes.at(sources[i][j], begin, shift))

                    points = square_map(lanes, down.input_map, load, across.input_map)
                    here, place = lanes.at(own, shift), partial(made.place, kind)
                    store_points(lanes, points, here, args[7], place)
                    return []

                lanes.loop(args[19], [], vector)
                return []

            lanes.loop(args[16], [], channel)

        lanes.choose(args[4], made.kinds, emit)
        return context.get_dummy_value()

    return signature, generate


@tile
def square_output_tile(
    typingctx: Any, outputs: Any, taps: Any, lines: Any, columns: Any, kind: Any, points: Any,
    points_index: Any, point: Any, bias: Any, bias_index: Any, out: Any, out_index: Any, line: Any,
    pixel: Any, mask: Any, mask_index: Any, mask_line: Any, mask_pixel: Any, mode: Any,
) -> Any:  # fmt: skip
    """Write bias + A^T p A of the points p, m x m pixels.

    Pixel (i, j) goes to out[out_index + i*line + j*pixel]; `mode` is as in `_correlation_tiles`.
    """
    index = types.int64
    signature = types.void(
        outputs, taps, lines, columns, index, points, index, index, bias, index, out, *[index] * 3,
        mask, *[index] * 4,
    )  # fmt: skip
    made = _Kinds(outputs, taps, lines, columns)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        source, start = lanes.pointer(5, args[5], args[6]), lanes.pointer(8, args[8], args[9])
        target, masking = lanes.pointer(10, *args[10:12]), lanes.pointer(14, *args[14:16])

        def emit(kind: int) -> None:
            down, across = made.transforms(kind)

            def load(i: int, j: int) -> Value:
                number = made.place(kind, i, j)
                return lanes.load(lanes.at(source, lanes.product(args[7], number)))

            results = square_map(lanes, down.output_map, load, across.output_map)
            bias = lanes.broadcast(start)

            def store(way: int) -> None:
                for i, row in enumerate(results):
                    for j, value in enumerate(row):
                        place = lanes.product(args[12], i), lanes.product(args[13], j)
                        also = lanes.product(args[16], i), lanes.product(args[17], j)
                        store_in_a_way(
                            lanes,
                            lanes.add(value, bias),
                            lanes.at(target, *place),
                            lanes.at(masking, *also),
                            way,
                        )

            lanes.choose(args[18], WAYS, store)

        lanes.choose(args[4], made.kinds, emit)
        return context.get_dummy_value()

    return signature, generate


@tile
def square_weights_tile(
    typingctx: Any, outputs: Any, taps: Any, out: Any, out_index: Any, out_point: Any, weights: Any
) -> Any:
    """Write G g G^T of the r x r vectors g = weights (r*r, LANES), (i, j) at (i*n + j)*out_point.

    Whole vectors are written, however many of their lanes are wanted.
    """
    index = types.int64
    signature = types.void(outputs, taps, out, index, index, weights)
    transform = winograd_transform(outputs.literal_value, taps.literal_value)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes, side = Lanes(context, builder, signature), transform.taps
        target = lanes.pointer(2, args[2], args[3])

        def load(i: int, j: int) -> Value:
            return lanes.load(lanes.pointer(5, args[5], (i * side + j) * lanes.width))

        store_points(lanes, square_map(lanes, transform.weights_map, load), target, args[4])
        return context.get_dummy_value()

    return signature, generate


@tile
def square_gradient_tile(
    typingctx: Any, outputs: Any, taps: Any, lines: Any, columns: Any, kind: Any, out: Any,
    out_index: Any, out_point: Any, pixels: Any, pixel: Any, vectors: Any,
) -> Any:  # fmt: skip
    """Write A g A^T of `vectors` vectors of the m x m pixels g, at pixels[(i*m + j)*pixel].

    Point (i, j) goes to out[out_index + (i*n + j)*out_point]. The adjoint of the output's map.
    """
    index = types.int64
    signature = types.void(
        outputs, taps, lines, columns, index, out, index, index, pixels, index, index
    )
    made = _Kinds(outputs, taps, lines, columns)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, source = lanes.pointer(5, args[5], args[6]), lanes.pointer(8, args[8])

        def emit(kind: int) -> None:
            down, across = made.transforms(kind)

            def vector(number: Value, _: list[Value]) -> list[Value]:
                shift = lanes.product(number, lanes.width)

                def load(i: int, j: int) -> Value:
                    place = lanes.product(args[9], i * made.outputs + j)
                    return lanes.load(lanes.at(source, shift, place))

                points = square_map(
                    lanes, transposed(down.output_map), load, transposed(across.output_map)
                )
                here, place = lanes.at(target, shift), partial(made.place, kind)
                store_points(lanes, points, here, args[7], place)
                return []

            lanes.loop(args[10], [], vector)

        lanes.choose(args[4], made.kinds, emit)
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
