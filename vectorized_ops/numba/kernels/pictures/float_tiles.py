# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""The inner loops on lines of floats, as Numba intrinsics. Indices count elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types

from vectorized_ops.numba.emit.flow import fold, repeat
from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value, tile
from vectorized_ops.numba.kernels.pictures.tiles import STEP

UNROLLED = 8
"""The most pixels that are summed without a loop."""

_FLOAT, _INT32, _FOUR = ir.FloatType(), ir.IntType(32), ir.VectorType(ir.FloatType(), 4)


@tile
def finished_tile(
    typingctx: Any, out: Any, out_index: Any, values: Any, index: Any, means: Any,
    means_index: Any, scales: Any, steps: Any, colours: Any, is_coloured: Any, past: Any,
) -> Any:  # fmt: skip
    """Write (v - mean) * scale of `steps` times STEP values, `past` the caches or not.

    If `is_coloured`, three values v are M v + b before, b being the last of four columns. `out` may
    be `values`.
    """
    signature = types.void(
        out, types.int64, values, types.int64, means, types.int64, scales, types.int64, colours,
        types.boolean, types.boolean,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, source, means = (lanes.pointer(i, *args[i : i + 2]) for i in (0, 2, 4))
        scales, matrix = lanes.pointer(6, args[6]), lanes.pointer(8, args[8])

        def emit(coloured: bool) -> None:
            entries = [lanes.broadcast(lanes.at(matrix, i)) for i in range(12 * coloured)]

            def step(turn: Value) -> None:
                for place in range(0, STEP, 3 * LANES):
                    begin = lanes.sum(lanes.product(turn, STEP), place)
                    given = _three(lanes, source, begin)
                    if coloured:
                        given = _mixed(lanes, given, entries)
                    less, factors = _three(lanes, means, begin), _three(lanes, scales, begin)
                    for i in range(3):
                        value = lanes.multiply(lanes.subtract(given[i], less[i]), factors[i])
                        lanes.store_streamed(value, lanes.at(target, begin, i * LANES), args[10])

            repeat(lanes, args[7], step)

        with builder.if_else(args[9]) as (mixing, plain):
            with mixing:
                emit(True)
            with plain:
                emit(False)
        return context.get_dummy_value()

    return signature, generate


def _three(lanes: Lanes, source: Value, begin: Value) -> list[Value]:
    return [lanes.load(lanes.at(source, begin, i * LANES)) for i in range(3)]


def _mixed(lanes: Lanes, given: list[Value], entries: list[Value]) -> list[Value]:
    """M v + b of LANES pixels in three vectors."""
    pixels = [_gathered(lanes, given, range(c, 3 * LANES, 3)) for c in range(3)]
    mixed = []
    for c in range(3):
        row = entries[4 * c : 4 * c + 4]
        parts = [lanes.multiply(row[i], pixels[i]) for i in range(3)]
        mixed.append(lanes.add(lanes.add(lanes.add(parts[0], parts[1]), parts[2]), row[3]))
    order = [c * LANES + pixel for pixel in range(LANES) for c in range(3)]
    return [_gathered(lanes, mixed, order[i * LANES :][:LANES]) for i in range(3)]


def _gathered(lanes: Lanes, vectors: list[Value], order: Sequence[int]) -> Value:
    """The lanes `order` of the concatenation of three vectors."""
    ahead = [number if number < 2 * LANES else 0 for number in order]
    two = lanes.shuffle(vectors[0], vectors[1], ahead)
    last = [i if number < 2 * LANES else number - LANES for i, number in enumerate(order)]
    return lanes.shuffle(two, vectors[2], last)


@tile
def weighted_pixels_tile(
    typingctx: Any, out: Any, values: Any, starts: Any, weights: Any, number: Any, count: Any,
    is_reversed: Any,
) -> Any:  # fmt: skip
    """Write `count` pixels: each the sum of `number` neighbouring pixels by its weights.

    Pixels are three floats; `starts` tells the first of each sum. A float behind each sum's pixels
    is read, and one behind the last pixel written. If `is_reversed` the last channel is written
    first.
    """
    signature = types.void(out, values, starts, weights, types.int64, types.int64, types.boolean)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, source, places, factors = (lanes.pointer(i, args[i]) for i in range(4))
        nothing, zero = ir.Constant(_FOUR, ir.Undefined), ir.Constant(_FOUR, [0.0] * 4)

        def product(begin: Value, own: Value, tap: Value) -> Value:
            one = builder.load(lanes.at(own, tap))
            same = lanes.shuffle(builder.insert_element(nothing, one, _INT32(0)), nothing, [0] * 4)
            four = builder.bitcast(lanes.at(begin, lanes.product(tap, 3)), _FOUR.as_pointer())
            return builder.fmul(same, builder.load(four, align=4))

        def emit(case: int) -> None:
            def pixel(x: Value) -> None:
                begin = lanes.at(source, lanes.product(lanes.load_integer(lanes.at(places, x)), 3))
                own = lanes.at(factors, lanes.product(x, args[4]))

                def add(tap: Value, totals: list[Value]) -> list[Value]:
                    return [builder.fadd(totals[0], product(begin, own, tap))]

                totals = [zero]
                for tap in range(case):
                    totals = add(tap, totals)
                if not case:
                    totals = fold(lanes, 0, args[4], totals, add)
                turned = lanes.shuffle(totals[0], nothing, [2, 1, 0, 3])
                total = builder.select(args[6], turned, totals[0])
                lanes.store_part(total, lanes.at(target, lanes.product(x, 3)))

            repeat(lanes, args[5], pixel)

        lanes.choose(args[4], range(UNROLLED + 1), emit)
        return context.get_dummy_value()

    return signature, generate
