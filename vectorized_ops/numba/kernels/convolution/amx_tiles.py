# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""What `amx` is made of: panels of pairs, products of AMX's tiles, stores of results.

Every index counts elements of its array; bounds are the caller's responsibility. Arrays of pairs of
bfloat16 are float32, whose bits are pairs.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba import types

from vectorized_ops.numba.compiling.tile_functions import TileFunction
from vectorized_ops.numba.emit.amx import TILE, Tiles
from vectorized_ops.numba.emit.bfloat16 import BITS, unpacked
from vectorized_ops.numba.emit.flow import repeat, several
from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value, tile
from vectorized_ops.numba.kernels.convolution.direct_tiles import gather_moments, store_results
from vectorized_ops.numba.kernels.convolution.row_tiles import transposed

ZEROS: Final = ir.Constant(ir.VectorType(BITS, LANES), [0] * LANES)

_INT = types.int64


@tile
def pairs_tile(
    typingctx: Any, out: Any, out_index: Any, out_vector: Any,
    inputs: Any, inputs_index: Any, images: Any, channels: Any,
) -> Any:  # fmt: skip
    """Write pairs of neighbouring rows of `channels`, a zero beside the last of an odd number.

    out[out_index + j*out_vector + p*LANES + lane] is the pair of
    inputs[inputs_index + (2*p + i)*images + j*LANES + lane], i = 0 and 1; float32 is rounded.
    """
    signature = types.void(out, _INT, _INT, inputs, _INT, _INT, _INT)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, source = lanes.pointer(0, args[0], args[1]), lanes.pointer(3, args[3], args[4])
        vectors = lanes.quotient(args[5], LANES)

        def write(pair: Value, is_whole: bool) -> None:
            first = lanes.at(source, lanes.product(lanes.product(pair, 2), args[5]))
            place = lanes.at(target, lanes.product(pair, LANES))

            def vector(number: Value) -> None:
                start = lanes.at(first, lanes.product(number, LANES))
                bits = lanes.load_rounded(start)
                other = lanes.load_rounded(lanes.at(start, args[5])) if is_whole else ZEROS
                (both,) = unpacked(lanes, bits, other, 1)
                lanes.store(both, lanes.at(place, lanes.product(number, args[2])))

            repeat(lanes, vectors, vector)

        pairs = lanes.quotient(args[6], 2)
        repeat(lanes, pairs, lambda pair: write(pair, is_whole=True))
        odd = lanes.remainder(args[6], 2)
        with builder.if_then(builder.icmp_signed("!=", odd, lanes.integer(0))):
            write(pairs, is_whole=False)
        return context.get_dummy_value()

    return signature, generate


PAIRS: Final = TileFunction(pairs_tile, ())


@tile
def products_tile(
    typingctx: Any, rows: Any, columns: Any, native: Any, out: Any, out_index: Any,
    weights: Any, weights_index: Any, weights_tile: Any, panel: Any, panel_index: Any,
    panel_vector: Any, runs: Any, runs_index: Any, number: Any, items: Any,
) -> Any:  # fmt: skip
    """Write weights x panels: `rows` tiles of filters, `columns` vectors of images at a time.

    A run is two integers in `runs`: its `first` step in weights, and its number of steps, of at
    least one. There is one run at least. In panels runs follow one another: `before` are the steps
    of those before a run. For i < rows and q < items*columns,
    out[out_index + ((q*rows + i)*16 + f)*LANES + lane] = sum over `number` runs, their steps t and
    p < 16 of products of pairs, weights[weights_index + i*weights_tile + ((first + t)*16 + f)*16
    + p] * panel[panel_index + q*panel_vector + ((before + t)*16 + p)*LANES + lane].
    """
    signature = types.void(
        rows, columns, native, out, _INT, weights, _INT, _INT, panel, _INT, _INT, runs, _INT, _INT,
        _INT,
    )  # fmt: skip
    height, width = rows.literal_value, columns.literal_value

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        tiles = Tiles(lanes, bool(native.literal_value))
        target, weights = lanes.pointer(3, *args[3:5]), lanes.pointer(5, *args[5:7])
        panel, runs, size = lanes.pointer(8, *args[8:10]), lanes.pointer(11, *args[11:13]), TILE**2
        lefts = [lanes.at(weights, lanes.product(args[7], i)) for i in range(height)]
        right_size = TILE * LANES

        def item(number: Value) -> None:
            first = lanes.product(number, width)
            rights = [
                lanes.at(panel, lanes.product(lanes.sum(first, j), args[10])) for j in range(width)
            ]

            def run(number: Value, values: list[Value]) -> list[Value]:
                before, *sums = values
                told = lanes.at(runs, lanes.product(number, 2))
                begin, steps = lanes.load_integer(told), lanes.load_integer(lanes.at(told, 1))

                def step(t: Value, sums: list[Value]) -> list[Value]:
                    at_left = lanes.product(lanes.sum(begin, t), size)
                    at_right = lanes.product(lanes.sum(before, t), right_size)
                    left = [tiles.left(lanes.at(it, at_left), TILE) for it in lefts]
                    right = [tiles.right(lanes.at(it, at_right), LANES) for it in rights]
                    return [
                        tiles.multiply(sums[j * height + i], left[i], right[j])
                        for j in range(width)
                        for i in range(height)
                    ]

                return [lanes.sum(before, steps), *lanes.loop(steps, sums, step)]

            start = [lanes.integer(0), *(tiles.zero() for _ in range(width * height))]
            _, *sums = lanes.loop(args[13], start, run)
            written = lanes.at(target, lanes.product(number, width * height * right_size))
            for i, each in enumerate(sums):
                tiles.store(each, lanes.at(written, i * right_size), LANES)

        repeat(lanes, args[14], item)
        return context.get_dummy_value()

    return signature, generate


PRODUCTS: Final = TileFunction(products_tile, ("rows", "columns", "native"), runs=_INT)


FINISHED: Final = 4
"""Filters whose results are stored at once."""


@tile
def finish_tile(
    typingctx: Any, columns: Any, out: Any, out_index: Any, images: Any, products: Any,
    products_index: Any, products_vector: Any, bias: Any, bias_index: Any, mask: Any,
    mask_index: Any, mode: Any, filters: Any, wanted: Any, sums: Any, sums_index: Any, pivots: Any,
    pivots_index: Any, fresh: Any, bits: Any,
) -> Any:  # fmt: skip
    """Write products plus bias as the results of `filters` filters of a pixel.

    out[out_index + f*images + j*LANES + lane] = bias[bias_index + f]
    + products[products_index + j*products_vector + f*LANES + lane], `columns` vectors at a time, of
    which `images` are a multiple; `mode`, `mask` and moments are those of `correlation_tile`.
    """
    signature = types.void(
        columns, out, _INT, _INT, products, _INT, _INT, bias, _INT, mask, _INT, _INT, _INT,
        types.boolean, sums, _INT, pivots, _INT, types.boolean, bits,
    )  # fmt: skip
    width = columns.literal_value

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, products = lanes.pointer(1, *args[1:3]), lanes.pointer(4, *args[4:6])
        constants, masking = lanes.pointer(7, *args[7:9]), lanes.pointer(9, *args[9:11])
        totals, pivots = lanes.pointer(14, *args[14:16]), lanes.pointer(16, *args[16:18])
        real, images, nothing = lanes.pointer(19, args[19]), args[3], lanes.integer(0)

        def write(f: Value, height: int) -> None:
            row, source = lanes.product(f, images), lanes.at(products, lanes.product(f, LANES))
            added = [lanes.broadcast(lanes.at(constants, f, i)) for i in range(height)]

            def vectors(number: Value) -> None:
                first = lanes.product(number, width)
                place = lanes.sum(row, lanes.product(first, LANES))
                columns = [
                    lanes.at(source, lanes.product(lanes.sum(first, j), args[6]))
                    for j in range(width)
                ]
                results = [
                    lanes.add(constant, lanes.load(lanes.at(column, i * LANES)))
                    for i, constant in enumerate(added)
                    for column in columns
                ]
                store_results(
                    lanes, results, width, lanes.at(target, place), lanes.at(masking, place),
                    images, args[11], nothing,
                )  # fmt: skip
                with builder.if_then(args[13]):
                    is_first = builder.icmp_signed("==", number, nothing)
                    gather_moments(
                        lanes, results, width, nothing,
                        lanes.at(totals, lanes.product(f, 2 * LANES)), lanes.at(pivots, f),
                        builder.and_(args[18], is_first),
                        lanes.at(real, lanes.product(first, LANES)),
                    )  # fmt: skip

            repeat(lanes, lanes.quotient(images, width * LANES), vectors)

        several(lanes, args[12], FINISHED, write)
        return context.get_dummy_value()

    return signature, generate


FINISH: Final = TileFunction(finish_tile, ("columns",), bits=types.int32)


@tile
def amx_outer_product_tile(
    typingctx: Any, rows: Any, columns: Any, images: Any, native: Any, out: Any, out_index: Any,
    left: Any, left_index: Any, left_pixel: Any, left_line: Any, right: Any, right_index: Any,
    right_pixel: Any, right_line: Any, pixels: Any, lines: Any,
) -> Any:  # fmt: skip
    """Add to sums as `outer_product_tile` does, of pairs of `images`, by AMX's tiles.

    `rows` are up to 32, `images` a multiple of 8. Sums that lie in `out` are gone on from.
    """
    height, width, batch = rows.literal_value, columns.literal_value, images.literal_value
    signature = types.void(
        rows, columns, images, native, out, _INT, left, _INT, _INT, _INT, right, _INT, _INT, _INT,
        _INT, _INT,
    )  # fmt: skip
    depth = TILE if batch % TILE == 0 else TILE // 2
    heights = [min(TILE, height - first) for first in range(0, height, TILE)]
    parts = [(i, rows, j) for i, rows in enumerate(heights) for j in range(width)]
    wide = width * LANES

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        tiles = Tiles(lanes, bool(native.literal_value), depth)
        target, left = lanes.pointer(4, *args[4:6]), lanes.pointer(6, *args[6:8])
        right = lanes.pointer(10, *args[10:12])

        def line(y: Value, sums: list[Value]) -> list[Value]:
            above = lanes.at(left, lanes.product(y, args[9]))
            below = lanes.at(right, lanes.product(y, args[13]))

            def pixel(x: Value, sums: list[Value]) -> list[Value]:
                at_left = lanes.at(above, lanes.product(x, args[8]))
                at_right = lanes.at(below, lanes.product(x, args[12]))

                def step(n: Value, sums: list[Value]) -> list[Value]:
                    here = lanes.at(at_left, lanes.product(n, depth))
                    there = lanes.at(at_right, lanes.product(n, depth * wide))
                    lefts = [
                        tiles.left(lanes.at(here, i * TILE * batch), batch, rows)
                        for i, rows in enumerate(heights)
                    ]
                    rights = [tiles.right(lanes.at(there, j * LANES), wide) for j in range(width)]
                    return [
                        tiles.multiply(total, lefts[i], rights[j], rows)
                        for total, (i, rows, j) in zip(sums, parts, strict=True)
                    ]

                return lanes.loop(batch // depth, sums, step)

            return lanes.loop(args[14], sums, pixel)

        places = [lanes.at(target, i * TILE * wide + j * LANES) for i, _, j in parts]
        start = [
            tiles.sums(place, wide, rows) for place, (_, rows, _) in zip(places, parts, strict=True)
        ]
        for place, (_, rows, _), total in zip(
            places, parts, lanes.loop(args[15], start, line), strict=True
        ):
            tiles.store(total, place, wide, rows)
        return context.get_dummy_value()

    return signature, generate


AMX_OUTER_PRODUCT: Final = TileFunction(
    amx_outer_product_tile, ("rows", "columns", "images", "native")
)


@tile
def turn_half_tile(
    typingctx: Any, out: Any, out_index: Any, out_row: Any, sums: Any, sums_index: Any,
    inputs: Any, inputs_index: Any, inputs_row: Any,
) -> Any:  # fmt: skip
    """Transpose and add LANES rows of pairs as `turn_tile` does, but LANES/2 of each alone."""
    signature = types.void(out, _INT, _INT, sums, _INT, inputs, _INT, _INT)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        source, target = lanes.pointer(5, *args[5:7]), lanes.pointer(0, *args[0:2])
        total, half = lanes.pointer(3, *args[3:5]), LANES // 2
        twice, rows = [*range(half)] * 2, []
        for i in range(LANES):
            part = lanes.load_part(lanes.at(source, lanes.product(args[7], i)), half)
            rows.append(lanes.shuffle(part, part, twice))
        both = lanes.load(total)
        for number, row in enumerate(transposed(lanes, rows)[:half]):
            lanes.store(row, lanes.at(target, lanes.product(args[2], number)))
            both = lanes.add_pairs(row, lanes.pairs_of_ones(), both)
        lanes.store(both, total)
        return context.get_dummy_value()

    return signature, generate


TURN_HALF: Final = TileFunction(turn_half_tile, ())
