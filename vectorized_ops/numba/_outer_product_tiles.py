# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""The register tiles of backward-weights, as Numba intrinsics.

The gradient of a weight is a sum over images and pixels, and images run fastest in memory: a
product of two such rows would end in a sum over lanes. So one side, the gradient of the output, is
turned once per pixel (filters fastest), and the tile adds outer products: input values are
broadcast from where they lie, filters are lanes.
"""

from __future__ import annotations

from typing import Any

from numba import types

from vectorized_ops.numba._lanes import LANES, Lanes, Value, tile

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
    no hardware prefetcher follows.
    """
    height, width, batch = rows.literal_value, columns.literal_value, images.literal_value
    index = types.int64
    signature = types.void(
        rows, columns, images, out, index, left, index, index, index, right, index, index, index,
        index, index,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target = lanes.pointer(3, args[3], args[4])
        left, right = lanes.pointer(5, args[5], args[6]), lanes.pointer(9, args[9], args[10])

        def line(y: Value, sums: list[Value]) -> list[Value]:
            left_line = lanes.at(left, lanes.product(y, args[8]))
            right_line = lanes.at(right, lanes.product(y, args[12]))

            def pixel(x: Value, sums: list[Value]) -> list[Value]:
                left_pixel = lanes.at(left_line, lanes.product(x, args[7]))
                right_pixel = lanes.at(right_line, lanes.product(x, args[11]))
                ahead = lanes.at(left_pixel, args[7])

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
                                results.append(lanes.fma(value, vectors[j], sums[i * width + j]))
                        sums = results
                    return sums

                return lanes.loop(batch // UNROLLED, sums, image)

            return lanes.loop(args[13], sums, pixel)

        nothing = [lanes.constant(0.0)] * (height * width)
        for number, value in enumerate(lanes.loop(args[14], nothing, line)):
            place = lanes.at(target, number * LANES)
            lanes.store(lanes.add(lanes.load(place), value), place)
        return context.get_dummy_value()

    return signature, generate


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
) -> Any:
    """Transpose LANES x LANES values, and add the rows of the result to LANES sums.

    out[out_index + n*out_row + i] = inputs[inputs_index + i*inputs_row + n];
    sums[sums_index + i] += sum over n.
    """
    index = types.int64
    signature = types.void(out, index, index, sums, index, inputs, index, index)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        source, target = lanes.pointer(5, args[5], args[6]), lanes.pointer(0, args[0], args[1])
        total = lanes.pointer(3, args[3], args[4])
        rows = [lanes.load(lanes.at(source, lanes.product(args[7], i))) for i in range(LANES)]
        rows = transposed(lanes, rows)
        for number, row in enumerate(rows):
            lanes.store(row, lanes.at(target, lanes.product(args[2], number)))
        while len(rows) > 1:
            rows = [lanes.add(*pair) for pair in zip(rows[::2], rows[1::2], strict=True)]
        lanes.store(lanes.add(lanes.load(total), rows[0]), total)
        return context.get_dummy_value()

    return signature, generate


def transposed(lanes: Lanes, rows: list[Value]) -> list[Value]:
    """Return the columns of LANES vectors: a butterfly that swaps one bit of row and lane each."""
    width = 1
    while width < LANES:
        low = [lane if not lane & width else LANES + lane - width for lane in range(LANES)]
        high = [lane + width if not lane & width else LANES + lane for lane in range(LANES)]
        swapped = list(rows)
        for i in range(LANES):
            if not i & width:
                swapped[i] = lanes.shuffle(rows[i], rows[i + width], low)
                swapped[i + width] = lanes.shuffle(rows[i], rows[i + width], high)
        rows, width = swapped, width * 2
    return rows
