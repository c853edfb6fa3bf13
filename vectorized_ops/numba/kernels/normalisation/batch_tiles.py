# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""The inner loops of batch normalisation, as Numba intrinsics: some channels of one pixel.

A channel of a pixel is a row of `vectors` vectors of images. Its constants stand at
constants[k * all_channels + channel], k a row of `arithmetic.batch_normalisation`. Sums over pixels
lie in memory as SUMS floats per channel, half of which belong to each of two sums: few, so that
they stay in the first-level cache while pixels pass through it. Indices and distances count
elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from llvmlite import ir
from numba import types

from vectorized_ops.numba.compiling.tile_functions import TileFunction
from vectorized_ops.numba.emit.flow import fold, repeat, when
from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value, tile
from vectorized_ops.numba.kernels.arithmetic import batch_normalisation as arithmetic
from vectorized_ops.numba.kernels.arithmetic.epilogue import epilogue as apply
from vectorized_ops.numba.kernels.arithmetic.epilogue import epilogue_gradient
from vectorized_ops.numba.kernels.arithmetic.sums import accumulate

NEAR_VALUES, NEAR_GRADIENTS = 4, 2
"""Pixels that the sums take together: it spares them the way to and from their memory."""

SUMS = 4

Body = Callable[[list[tuple[Value, Value]], list[Value]], list[Value]]
"""What is done to some vectors of a row: from their (offset of the row, offset in the row) and what
is carried along the row to what is carried on."""


def _each_channel(
    lanes: Lanes,
    channels: Value,
    vectors: Value,
    row_body: Callable[[Value], Body],
    finish: Callable[[Value, list[Value]], None] | None = None,
) -> None:
    """Emit the loops over channels and rows; with `finish`, two vectors of zeros begin each row."""
    length = lanes.product(vectors, LANES)

    def rows(odd: int) -> None:
        group = 2 - odd
        groups = lanes.quotient(vectors, group)

        def step(channel: Value) -> None:
            body, row = row_body(channel), lanes.product(channel, length)

            def of_group(index: Value, carried: list[Value]) -> list[Value]:
                first = lanes.product(index, group * LANES)
                return body([(row, lanes.sum(first, i * LANES)) for i in range(group)], carried)

            start = [lanes.constant(0.0)] * (0 if finish is None else 2)
            carried = fold(lanes, 0, groups, start, of_group)
            if finish is not None:
                finish(channel, carried)

        repeat(lanes, channels, step)

    lanes.choose(lanes.remainder(vectors, 2), (0, 1), rows)


def _add_sums(lanes: Lanes, sums: Value) -> Callable[[Value, list[Value]], None]:
    """Return what adds two vectors, folded to SUMS / 2 floats each, to a channel's sums."""

    def finish(channel: Value, carried: list[Value]) -> None:
        first, second = carried
        both, width = lanes.shuffle(first, second, range(2 * LANES)), 2 * LANES
        while width > SUMS:
            width //= 2
            low = [*range(width // 2), *range(width, width + width // 2)]
            high = [lane + width // 2 for lane in low]
            both = lanes.add(lanes.shuffle(both, both, low), lanes.shuffle(both, both, high))
        target = lanes.at(sums, lanes.product(channel, SUMS))
        before = lanes.builder.load(lanes.builder.bitcast(target, both.type.as_pointer()), align=4)
        lanes.store_part(lanes.add(before, both), target)

    return finish


def _constants(
    lanes: Lanes, table: Value, all_channels: Value, channel: Value, rows: tuple[int, ...]
) -> list[Value]:
    """Return vectors of a channel's constants."""
    return [
        lanes.broadcast(lanes.at(table, channel, lanes.product(all_channels, row))) for row in rows
    ]


@tile
def moments_tile(
    typingctx: Any, sums: Any, sums_index: Any, values: Any, values_index: Any, distance: Any,
    near: Any, pivots: Any, pivots_index: Any, bits: Any, channels: Any, vectors: Any,
) -> Any:  # fmt: skip
    """Add x - pivot and its square to the sums of each channel, for 1 or NEAR_VALUES pixels.

    Only those images count that `bits` (-1, for the others 0) lets through.
    """
    signature = types.void(
        sums, types.int64, values, types.int64, types.int64, types.int64, pivots, types.int64, bits,
        types.int64, types.int64,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        totals, source = lanes.pointer(0, args[0], args[1]), lanes.pointer(2, args[2], args[3])
        pivot, real = lanes.pointer(6, args[6], args[7]), lanes.pointer(8, args[8])

        def pixels(number: int) -> None:
            sources = [lanes.at(source, lanes.product(args[4], i)) for i in range(number)]
            ahead = lanes.product(args[4], number)

            def row_body(channel: Value) -> Body:
                middle = lanes.broadcast(lanes.at(pivot, channel))

                def body(places: list[tuple[Value, Value]], carried: list[Value]) -> list[Value]:
                    for pixel in sources:
                        for row, offset in places:
                            lanes.prefetch(lanes.at(pixel, row, offset, ahead), level=2)
                            value = lanes.load(lanes.at(pixel, row, offset))
                            centred = lanes.subtract(value, middle)
                            centred = lanes.keep(centred, lanes.at(real, offset))
                            carried = accumulate(lanes, carried, arithmetic.moments(centred))
                    return carried

                return body

            _each_channel(lanes, args[9], args[10], row_body, _add_sums(lanes, totals))

        lanes.choose(args[5], (1, NEAR_VALUES), pixels)
        return context.get_dummy_value()

    return signature, generate


@tile
def gradient_sums_tile(
    typingctx: Any, epilogue: Any, sums: Any, sums_index: Any, values: Any, values_index: Any,
    distance: Any, gradient: Any, gradient_index: Any, gradient_distance: Any, near: Any,
    constants: Any, constants_index: Any, all_channels: Any, low: Any, high: Any, bits: Any,
    channels: Any, vectors: Any,
) -> Any:  # fmt: skip
    """Add g and g * (x - mean) to the sums of each channel, for 1 or NEAR_GRADIENTS pixels.

    g is the gradient that the epilogue with this number lets through; `bits` as in `moments_tile`.
    """
    signature = types.void(
        epilogue, sums, types.int64, values, types.int64, types.int64, gradient, types.int64,
        types.int64, types.int64, constants, types.int64, types.int64, types.float32, types.float32,
        bits, types.int64, types.int64,
    )  # fmt: skip
    kind = epilogue.literal_value

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        totals, source = lanes.pointer(1, args[1], args[2]), lanes.pointer(3, args[3], args[4])
        above, table = lanes.pointer(6, args[6], args[7]), lanes.pointer(10, args[10], args[11])
        through, real = _through(lanes, kind, *args[13:15]), lanes.pointer(15, args[15])

        def pixels(number: int) -> None:
            pairs = [
                (
                    lanes.at(source, lanes.product(args[5], i)),
                    lanes.at(above, lanes.product(args[8], i)),
                )
                for i in range(number)
            ]

            def row_body(channel: Value) -> Body:
                constants = _constants(lanes, table, args[12], channel, arithmetic.FORWARD)

                def body(places: list[tuple[Value, Value]], carried: list[Value]) -> list[Value]:
                    for pixel, upper in pairs:
                        for row, offset in places:
                            value = lanes.load(lanes.at(pixel, row, offset))
                            arriving = lanes.load(lanes.at(upper, row, offset))
                            parts = arithmetic.gradient(lanes, value, arriving, constants, through)
                            centred, slope = (
                                lanes.keep(part, lanes.at(real, offset)) for part in parts
                            )
                            terms = arithmetic.gradient_sums(centred, slope)
                            carried = accumulate(lanes, carried, terms)
                    return carried

                return body

            _each_channel(lanes, args[16], args[17], row_body, _add_sums(lanes, totals))

        lanes.choose(args[9], (1, NEAR_GRADIENTS), pixels)
        return context.get_dummy_value()

    return signature, generate


@tile
def flush_tile(typingctx: Any, sums: Any, totals: Any, channels: Any) -> Any:
    """Add both sums of each channel to doubles, totals[2*channel] and the next; zero the sums."""
    signature = types.void(sums, totals, types.int64)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        source, target = lanes.pointer(0, args[0]), lanes.pointer(1, args[1])

        def step(channel: Value) -> None:
            for which in range(2):
                total = lanes.at(target, lanes.product(channel, 2), which)
                for i in range(SUMS // 2):
                    place = lanes.at(source, lanes.product(channel, SUMS), which * SUMS // 2 + i)
                    value = builder.load(place)
                    builder.store(value.type(0.0), place)
                    wide = builder.fpext(value, ir.DoubleType())
                    builder.store(builder.fadd(builder.load(total), wide), total)

        repeat(lanes, args[2], step)
        return context.get_dummy_value()

    return signature, generate


@tile
def normalise_tile(
    typingctx: Any, epilogue: Any, out: Any, out_index: Any, values: Any, values_index: Any,
    addend: Any, addend_index: Any, constants: Any, constants_index: Any, all_channels: Any,
    low: Any, high: Any, channels: Any, vectors: Any, with_addend: Any, past: Any,
) -> Any:  # fmt: skip
    """Write the epilogue with this number of (x - mean) * factor + shift, plus an addend."""
    signature = types.void(
        epilogue, out, types.int64, values, types.int64, addend, types.int64, constants,
        types.int64, types.int64, types.float32, types.float32, types.int64, types.int64,
        types.boolean, types.boolean,
    )  # fmt: skip
    kind = epilogue.literal_value

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, source = lanes.pointer(1, args[1], args[2]), lanes.pointer(3, args[3], args[4])
        other, table = lanes.pointer(5, args[5], args[6]), lanes.pointer(7, args[7], args[8])

        def row_body(channel: Value) -> Body:
            constants = _constants(lanes, table, args[9], channel, arithmetic.FORWARD)

            def body(places: list[tuple[Value, Value]], _carried: list[Value]) -> list[Value]:
                results = []
                for place in places:
                    value = lanes.load(lanes.at(source, *place))
                    results.append(arithmetic.normalised(lanes, value, constants))

                def joined(results: list[Value]) -> list[Value]:
                    addends = [lanes.load(lanes.at(other, *place)) for place in places]
                    return [lanes.add(*pair) for pair in zip(results, addends, strict=True)]

                results = when(lanes, args[14], results, joined)
                for result, place in zip(results, places, strict=True):
                    result = apply(lanes, kind, result, *args[10:12])
                    lanes.store_streamed(result, lanes.at(target, *place), args[15])
                return []

            return body

        _each_channel(lanes, args[12], args[13], row_body)
        return context.get_dummy_value()

    return signature, generate


@tile
def values_gradient_tile(
    typingctx: Any, epilogue: Any, out: Any, out_index: Any, values: Any, values_index: Any,
    gradient: Any, gradient_index: Any, constants: Any, constants_index: Any, all_channels: Any,
    low: Any, high: Any, bits: Any, channels: Any, vectors: Any, add: Any, past: Any,
) -> Any:  # fmt: skip
    """Write the gradient of the values, or add it; zero in padding images.

    The epilogue and `bits` are as in `gradient_sums_tile`.
    """
    signature = types.void(
        epilogue, out, types.int64, values, types.int64, gradient, types.int64, constants,
        types.int64, types.int64, types.float32, types.float32, bits, types.int64, types.int64,
        types.boolean, types.boolean,
    )  # fmt: skip
    kind = epilogue.literal_value

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, source = lanes.pointer(1, args[1], args[2]), lanes.pointer(3, args[3], args[4])
        above, table = lanes.pointer(5, args[5], args[6]), lanes.pointer(7, args[7], args[8])
        through, real = _through(lanes, kind, *args[10:12]), lanes.pointer(12, args[12])

        def row_body(channel: Value) -> Body:
            constants = _constants(lanes, table, args[9], channel, arithmetic.BACKWARD)

            def body(places: list[tuple[Value, Value]], _carried: list[Value]) -> list[Value]:
                results = []
                for place in places:
                    value, slope = (lanes.load(lanes.at(at, *place)) for at in (source, above))
                    results.append(
                        arithmetic.values_gradient(lanes, value, slope, constants, through)
                    )

                def added(results: list[Value]) -> list[Value]:
                    before = [lanes.load(lanes.at(target, *place)) for place in places]
                    return [lanes.add(*pair) for pair in zip(results, before, strict=True)]

                results = when(lanes, args[15], results, added)
                for result, (row, offset) in zip(results, places, strict=True):
                    result = lanes.keep(result, lanes.at(real, offset))
                    lanes.store_streamed(result, lanes.at(target, row, offset), args[16])
                return []

            return body

        _each_channel(lanes, args[13], args[14], row_body)
        return context.get_dummy_value()

    return signature, generate


def _through(lanes: Lanes, number: int, low: Value, high: Value) -> arithmetic.Through:
    return lambda value, arriving: epilogue_gradient(lanes, number, value, arriving, low, high)


_CONSTANTS = ("epilogue",)

GRADIENT_SUMS: Final = TileFunction(gradient_sums_tile, _CONSTANTS, bits=types.int32)
NORMALISE: Final = TileFunction(normalise_tile, _CONSTANTS)
VALUES_GRADIENT: Final = TileFunction(values_gradient_tile, _CONSTANTS, bits=types.int32)
