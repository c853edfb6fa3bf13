# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""Winograd's transforms of F(m x m, r x r) on memory (H, W, C, N), as Numba intrinsics.

m is called `outputs` here, r `taps`. A tile of inputs are n x n pixels, n = m + r - 1; every vector
of its channels and images is mapped the same way to n*n points. Bounds are the caller's business,
but pixels outside the image are read as zeros, and results outside it are not written.
"""

from __future__ import annotations

from typing import Any

from numba import types

from vectorized_ops.numba._correlation_tiles import ADD, MASK, RELU, store_in_a_way
from vectorized_ops.numba._lanes import Lanes, Value, tile
from vectorized_ops.numba._winograd_tiles import square_map, store_points
from vectorized_ops.winograd import transposed, winograd_transform


@tile
def square_input_tile(
    typingctx: Any, outputs: Any, taps: Any, out: Any, out_index: Any, out_point: Any,
    images: Any, images_index: Any, y: Any, x: Any, height: Any, width: Any, distance: Any,
    zeros: Any, channels: Any, channel: Any, out_channel: Any, vectors: Any,
) -> Any:  # fmt: skip
    """Write B^T d B of `channels` x `vectors` vectors of the n x n pixels d from (y, x) on.

    Pixel (i, j) begins at images[images_index + (i*width + j)*distance], its channel c `channel`
    floats behind the one before; it is read from `zeros` if it is outside [0, height) x [0, width).
    Point (i, j) goes to out[out_index + (i*n + j)*out_point + c*out_channel].
    """
    index = types.int64
    signature = types.void(
        outputs, taps, out, index, index, images, *[index] * 6, zeros, *[index] * 4
    )
    transform = winograd_transform(outputs.literal_value, taps.literal_value)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes, size = Lanes(context, builder, signature), transform.points
        target, nothing = lanes.pointer(2, args[2], args[3]), lanes.pointer(12, args[12])
        lines = [builder.add(args[7], lanes.integer(i)) for i in range(size)]
        columns = [builder.add(args[8], lanes.integer(j)) for j in range(size)]
        inside_lines = [lanes.inside(line, args[9]) for line in lines]
        inside_columns = [lanes.inside(column, args[10]) for column in columns]
        sources = []
        for i in range(size):
            for j in range(size):
                pixel = builder.add(lanes.product(lines[i], args[10]), columns[j])
                place = lanes.pointer(5, args[5], args[6], lanes.product(pixel, args[11]))
                inside = builder.and_(inside_lines[i], inside_columns[j])
                sources.append(builder.select(inside, place, nothing))

        def channel(c: Value, _: list[Value]) -> list[Value]:
            begin = lanes.product(c, args[14])
            own = lanes.at(target, lanes.product(c, args[15]))

            def vector(number: Value, _: list[Value]) -> list[Value]:
                shift = lanes.product(number, lanes.width)

                def load(i: int, j: int) -> Value:
                    return lanes.load(lanes.at(sources[i * size + j], begin, shift))

                points = square_map(lanes, transform.input_map, load)
                store_points(lanes, points, lanes.at(own, shift), args[4])
                return []

            lanes.loop(args[16], [], vector)
            return []

        lanes.loop(args[13], [], channel)
        return context.get_dummy_value()

    return signature, generate


@tile
def square_output_tile(
    typingctx: Any, outputs: Any, taps: Any, points: Any, points_index: Any, point: Any, bias: Any,
    bias_index: Any, out: Any, out_index: Any, line: Any, pixel: Any, height: Any, width: Any,
    mask: Any, mask_index: Any, mask_line: Any, mask_pixel: Any, mode: Any,
) -> Any:  # fmt: skip
    """Write bias + A^T p A of the points p, m x m pixels of which the first height x width exist.

    Pixel (i, j) goes to out[out_index + i*line + j*pixel]; `mode` is RELU, ADD, MASK, both of these
    or 0, as in `_correlation_tiles`.
    """
    index = types.int64
    signature = types.void(
        outputs, taps, points, index, index, bias, index, out, *[index] * 5, mask, *[index] * 4
    )
    transform = winograd_transform(outputs.literal_value, taps.literal_value)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes, size = Lanes(context, builder, signature), transform.points
        source = lanes.pointer(2, args[2], args[3])

        def load(i: int, j: int) -> Value:
            return lanes.load(lanes.at(source, lanes.product(args[4], i * size + j)))

        start = lanes.broadcast(lanes.pointer(5, args[5], args[6]))
        results = square_map(lanes, transform.output_map, load)
        target, masking = lanes.pointer(7, args[7], args[8]), lanes.pointer(13, args[13], args[14])

        def store(way: int) -> None:
            for i, row in enumerate(results):
                with builder.if_then(builder.icmp_signed(">", args[11], lanes.integer(i))):
                    for j, value in enumerate(row):
                        with builder.if_then(builder.icmp_signed(">", args[12], lanes.integer(j))):
                            place = lanes.product(args[9], i), lanes.product(args[10], j)
                            also = lanes.product(args[15], i), lanes.product(args[16], j)
                            store_in_a_way(
                                lanes,
                                lanes.add(value, start),
                                lanes.at(target, *place),
                                lanes.at(masking, *also),
                                way,
                            )

        lanes.choose(args[17], (0, RELU, ADD, MASK, ADD | MASK), store)
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
    typingctx: Any, outputs: Any, taps: Any, out: Any, out_index: Any, out_point: Any,
    pixels: Any, pixel: Any, vectors: Any,
) -> Any:  # fmt: skip
    """Write A g A^T of `vectors` vectors of the m x m pixels g, at pixels[(i*m + j)*pixel].

    Point (i, j) goes to out[out_index + (i*n + j)*out_point]. The adjoint of the output's map.
    """
    index = types.int64
    signature = types.void(outputs, taps, out, index, index, pixels, index, index)
    transform = winograd_transform(outputs.literal_value, taps.literal_value)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, source = lanes.pointer(2, args[2], args[3]), lanes.pointer(5, args[5])

        def vector(number: Value, _: list[Value]) -> list[Value]:
            shift = lanes.product(number, lanes.width)

            def load(i: int, j: int) -> Value:
                place = lanes.product(args[6], i * transform.outputs + j)
                return lanes.load(lanes.at(source, shift, place))

            points = square_map(lanes, transposed(transform.output_map), load)
            store_points(lanes, points, lanes.at(target, shift), args[4])
            return []

        lanes.loop(args[7], [], vector)
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
