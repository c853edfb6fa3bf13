# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""The register tiles of backward-weights, as Numba intrinsics.

The gradient of a weight is a sum over images and pixels. Images run fastest in memory, so a product
of two such rows would end in a sum over lanes. Instead the gradient of the output is transposed
once per pixel (filters fastest), and the tile adds outer products: input values are broadcast from
where they lie, filters are lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from numba import types

from vectorized_ops.numba.compiling.tile_functions import TileFunction
from vectorized_ops.numba.emit.flow import repeat
from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value, tile
from vectorized_ops.numba.kernels.convolution.row_tiles import transposed

UNROLLED = 4
"""Images per step of the innermost loop."""

LINE_FLOATS = 16
"""Floats in a cache line."""


@tile
def outer_product_tile(
    typingctx: Any,
    rows: Any,
    columns: Any,
    images: Any,
    pairs: Any,
    out: Any,
    out_index: Any,
    left: Any,
    left_index: Any,
    left_pixel: Any,
    left_line: Any,
    right: Any,
    right_index: Any,
    right_pixel: Any,
    right_line: Any,
    pixels: Any,
    lines: Any,
) -> Any:
    """Add to a tile of `rows` x `columns` vectors, which lies in `out` row by row.

    out[out_index + (i*columns + j)*LANES + lane] += sum over lines y, pixels x and images n of
    left[left_index + y*left_line + x*left_pixel + i*images + n]
    * right[right_index + y*right_line + x*right_pixel + (n*columns + j)*LANES + lane].
    `images` is a multiple of 4, and a constant like rows and columns, so that the rows of `left`
    are displacements in the instruction; lines and pixels are at least 1. A call's products are
    summed by themselves and then added, so that rounding errors grow with the number of calls, not
    of products. While one pixel of `left` is used the next is fetched: pixels lie far apart, which
    no hardware prefetcher follows. With `pairs`, what is multiplied are pairs of bfloat16 in the
    bits of float32, two neighbouring images each.
    """
    height, width, batch = rows.literal_value, columns.literal_value, images.literal_value
    index = types.int64
    signature = types.void(
        rows, columns, images, pairs, out, index, left, index, index, index, right, index, index,
        index, index, index,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        left, right = lanes.pointer(6, args[6], args[7]), lanes.pointer(10, args[10], args[11])
        multiply = _multiply(lanes, pairs)

        def line(y: Value, sums: list[Value]) -> list[Value]:
            at_left = lanes.at(left, lanes.product(y, args[9]))
            at_right = lanes.at(right, lanes.product(y, args[13]))
            return _sum_pixels(
                lanes, sums, width, batch, at_left, args[8], at_right, args[12], args[14], multiply
            )

        nothing = [lanes.constant(0.0)] * (height * width)
        _add_to(lanes, lanes.loop(args[15], nothing, line), lanes.pointer(4, args[4], args[5]))
        return context.get_dummy_value()

    return signature, generate


@tile
def point_sums_tile(
    typingctx: Any, rows: Any, columns: Any, images: Any, pairs: Any, out: Any, out_index: Any,
    out_block: Any, left: Any, left_index: Any, left_pixel: Any, right: Any, right_index: Any,
    right_pixel: Any, pixels: Any, channels: Any,
) -> Any:  # fmt: skip
    """Add to the tiles of all `channels`, as `outer_product_tile` to one, products of one line.

    Tiles lie `out_block` floats apart. Each has the `rows` channels that come next: the last ones
    if fewer are left, of which the tile before has some as well.
    """
    height, width, batch = rows.literal_value, columns.literal_value, images.literal_value
    index = types.int64
    signature = types.void(
        rows, columns, images, pairs, out, index, index, left, index, index, right, index, index,
        index, index,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, left = lanes.pointer(4, *args[4:6]), lanes.pointer(7, *args[7:9])
        right, multiply = lanes.pointer(10, *args[10:12]), _multiply(lanes, pairs)
        last = builder.sub(args[14], lanes.integer(height))
        blocks = lanes.quotient(lanes.sum(args[14], height - 1), height)

        def block(number: Value) -> None:
            row = lanes.product(number, height)
            row = builder.select(builder.icmp_signed("<", row, last), row, last)
            sums = _sum_pixels(
                lanes, [lanes.constant(0.0)] * (height * width), width, batch,
                lanes.at(left, lanes.product(row, batch)), args[9], right, args[12], args[13],
                multiply,
            )  # fmt: skip
            _add_to(lanes, sums, lanes.at(target, lanes.product(number, args[6])))

        repeat(lanes, blocks, block)
        return context.get_dummy_value()

    return signature, generate


def _multiply(lanes: Lanes, pairs: Any) -> Callable[[Value, Value, Value], Value]:
    return lanes.add_pairs if pairs.literal_value else lanes.fma


def _sum_pixels(
    lanes: Lanes,
    sums: list[Value],
    width: int,
    batch: int,
    left: Value,
    left_step: Value,
    right: Value,
    right_step: Value,
    pixels: Value,
    multiply: Callable[[Value, Value, Value], Value],
) -> list[Value]:
    """Emit the sums of a tile and of its products over a line of pixels, and over the images."""
    height = len(sums) // width

    def pixel(x: Value, sums: list[Value]) -> list[Value]:
        left_pixel = lanes.at(left, lanes.product(x, left_step))
        right_pixel = lanes.at(right, lanes.product(x, right_step))
        ahead = lanes.at(left_pixel, left_step)

        def image(n: Value, sums: list[Value]) -> list[Value]:
            for line_ahead in range(-(-height * UNROLLED // LINE_FLOATS)):
                place = lanes.product(n, height * UNROLLED), line_ahead * LINE_FLOATS
                lanes.prefetch(lanes.at(ahead, *place))
            for u in range(UNROLLED):
                values = lanes.at(left_pixel, lanes.product(n, UNROLLED), u)
                source = lanes.product(n, UNROLLED * width * LANES), u * width * LANES
                at_right = lanes.at(right_pixel, *source)
                vectors = [lanes.load(lanes.at(at_right, j * LANES)) for j in range(width)]
                results = []
                for i in range(height):
                    value = lanes.broadcast(lanes.at(values, i * batch))
                    for j in range(width):
                        results.append(multiply(value, vectors[j], sums[i * width + j]))
                sums = results
            return sums

        return lanes.loop(batch // UNROLLED, sums, image)

    return lanes.loop(pixels, sums, pixel)


def _add_to(lanes: Lanes, sums: list[Value], target: Value) -> None:
    for number, value in enumerate(sums):
        place = lanes.at(target, number * LANES)
        lanes.store(lanes.add(lanes.load(place), value), place)


_SHAPE = ("rows", "columns", "images", "pairs")

OUTER_PRODUCT: Final = TileFunction(outer_product_tile, _SHAPE)
POINT_SUMS: Final = TileFunction(point_sums_tile, _SHAPE)


@tile
def turn_tile(
    typingctx: Any,
    out: Any,
    out_index: Any,
    out_row: Any,
    sums: Any,
    sums_index: Any,
    inputs: Any,
    inputs_index: Any,
    inputs_row: Any,
    pairs: Any,
) -> Any:
    """Transpose LANES x LANES values, and add the rows of the result to LANES sums.

    out[out_index + n*out_row + i] = inputs[inputs_index + i*inputs_row + n];
    sums[sums_index + i] += sum over n. If `pairs`, values are pairs of bfloat16, and both count.
    """
    index = types.int64
    signature = types.void(out, index, index, sums, index, inputs, index, index, types.boolean)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        source, target = lanes.pointer(5, args[5], args[6]), lanes.pointer(0, args[0], args[1])
        total = lanes.pointer(3, args[3], args[4])
        rows = [lanes.load(lanes.at(source, lanes.product(args[7], i))) for i in range(LANES)]
        rows = transposed(lanes, rows)
        for number, row in enumerate(rows):
            lanes.store(row, lanes.at(target, lanes.product(args[2], number)))
        with builder.if_else(args[8]) as (paired, single):
            with paired:
                both = lanes.load(total)
                for row in rows:
                    both = lanes.add_pairs(row, lanes.pairs_of_ones(), both)
                lanes.store(both, total)
            with single:
                while len(rows) > 1:
                    rows = [lanes.add(*pair) for pair in zip(rows[::2], rows[1::2], strict=True)]
                lanes.store(lanes.add(lanes.load(total), rows[0]), total)
        return context.get_dummy_value()

    return signature, generate


@tile
def gather_tile(
    typingctx: Any, turned: Any, out: Any, out_index: Any, out_row: Any, sums: Any,
    sums_index: Any, sums_share: Any, shares: Any, channel_step: Any, tap_step: Any, taps: Any,
    values: Any,
) -> Any:  # fmt: skip
    """Write sums of LANES filters, filters fastest, as rows of channels and taps, taps fastest.

    out[out_index + lane*out_row + q] = sum over s < shares of sums[sums_index + s*sums_share
    + q/taps*channel_step + q%taps*tap_step + lane] for q < values; there is one value at least,
    and one share. If `turned`, with one tap, it is out[out_index + q*out_row + lane]. Each sum
    begins with zero.
    """
    index = types.int64
    signature = types.void(
        turned, out, index, index, sums, index, index, index, index, index, index, index
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        out_row, (share_step, shares, channel_step, tap_step, taps, values) = args[3], args[6:12]
        target, source = lanes.pointer(1, *args[1:3]), lanes.pointer(4, *args[4:6])
        zero, last = lanes.integer(0), builder.sub(values, lanes.integer(1))

        def block(number: Value) -> None:
            first = lanes.product(number, LANES)
            channel, tap = builder.udiv(first, taps), builder.urem(first, taps)
            places = []
            for i in range(LANES):
                at_channel = lanes.product(channel, channel_step)
                places.append(lanes.sum(at_channel, lanes.product(tap, tap_step)))
                # What is behind the last value repeats it.
                more = builder.icmp_signed("<", lanes.sum(first, i), last)
                step = builder.select(more, lanes.integer(1), zero)
                tap = lanes.sum(tap, step)
                is_next = builder.icmp_signed("==", tap, taps)
                channel = builder.select(is_next, lanes.sum(channel, 1), channel)
                tap = builder.select(is_next, zero, tap)

            def share(number: Value, totals: list[Value]) -> list[Value]:
                start = lanes.at(source, lanes.product(number, share_step))
                return [
                    lanes.add(total, lanes.load(lanes.at(start, place)))
                    for total, place in zip(totals, places, strict=True)
                ]

            rows = lanes.loop(shares, [lanes.constant(0.0)] * LANES, share)
            if turned.literal_value:
                for i, row in enumerate(rows):
                    q = lanes.sum(first, i)
                    with builder.if_then(builder.icmp_signed("<=", q, last)):
                        lanes.store(row, lanes.at(target, lanes.product(out_row, q)))
                return
            begin, here = lanes.at(target, first), builder.sub(values, first)
            columns = [
                (column, lanes.at(begin, lanes.product(out_row, lane)))
                for lane, column in enumerate(transposed(lanes, rows))
            ]
            is_whole = builder.icmp_signed(">=", here, lanes.integer(LANES))
            with builder.if_else(is_whole) as (whole, part):
                with whole:
                    for column, place in columns:
                        lanes.store(column, place)
                with part:
                    for column, place in columns:
                        lanes.store_first(column, place, here)

        repeat(lanes, lanes.quotient(lanes.sum(values, LANES - 1), LANES), block)
        return context.get_dummy_value()

    return signature, generate


GATHER: Final = TileFunction(gather_tile, ("turned",))
