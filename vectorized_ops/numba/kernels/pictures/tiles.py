# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""From bytes of a line to normalised floats, as a Numba intrinsic. Indices count elements.

Three channels lie side by side in a picture's pixel, so a line's mirror image is no reversal of its
bytes. 16 pixels are 48 bytes: they are loaded at once, and one shuffle brings them into any order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from llvmlite import ir
from numba import types

from vectorized_ops.numba.compiling.tile_functions import TileFunction
from vectorized_ops.numba.emit.flow import repeat
from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value, tile

STEP = 48
"""Values that are written together: whole pixels of one or three channels, and whole vectors."""

SHORT_STEP = LANES
"""The same of one channel in images whose lines are shorter than `STEP`."""

_BYTES, _INT32, _FLOAT = ir.IntType(8), ir.IntType(32), ir.FloatType()


@tile
def copied_tile(
    typingctx: Any, out: Any, out_index: Any, out_distance: Any, picture: Any, distance: Any,
    plane: Any, means: Any, scales: Any, lines: Any, count: Any, flipped: Any, past: Any,
    channels: Any, is_planar: Any, is_reversed: Any, size: Any,
) -> Any:  # fmt: skip
    """Write values (v - mean) * scale of `lines` lines of `count` pixels of a picture.

    Lines are `distance` bytes apart in the picture and `out_distance` floats in `out`. `size` is
    STEP or SHORT_STEP: so many values are written together, at a line's end some of them again, and
    those of shorter lines one by one. Means and scales are repeated for as many values. A line that
    is `flipped` is written backwards, from its end: the memory's prefetchers read ahead, not
    behind. The channels of a planar picture are `plane` apart, those of a reversed one are read
    from the last to the first.
    """
    number, step = channels.literal_value, size.literal_value
    planar, backwards = bool(is_planar.literal_value), bool(is_reversed.literal_value)
    signature = types.void(
        out, types.int64, types.int64, picture, types.int64, types.int64, means, scales,
        types.int64, types.int64, types.boolean, types.boolean, channels, is_planar, is_reversed,
        size,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, source = lanes.pointer(0, *args[0:2]), lanes.pointer(3, args[3])
        means, scales = lanes.pointer(6, args[6]), lanes.pointer(7, args[7])
        factors = [lanes.load(lanes.at(scales, i)) for i in range(0, step, LANES)]
        less = [lanes.load(lanes.at(means, i)) for i in range(0, step, LANES)]
        pixels = step // number
        last = builder.sub(args[9], lanes.integer(pixels))

        def lines(body: Callable[[Value, Value, Value], None], steps: Value) -> None:
            """`body(turn, begin, end)` for the steps of lines that begin at these pointers."""

            def line(y: Value) -> None:
                begin = lanes.at(source, lanes.product(y, args[4]))
                end = lanes.at(target, lanes.product(y, args[2]))
                repeat(lanes, steps, lambda turn: body(turn, begin, end))

            repeat(lanes, args[8], line)

        def emit(mirrored: bool, store: Callable[[Value, Value], None]) -> None:
            order = _order(number, planar, mirrored, backwards, step)

            def several(turn: Value, begin: Value, end: Value) -> None:
                pixel = lanes.product(turn, pixels)
                pixel = builder.select(builder.icmp_signed("<", pixel, last), pixel, last)
                begin = lanes.at(begin, lanes.product(pixel, 1 if planar else number))
                read = _read(lanes, begin, args[5], number if planar else 1, step)
                place = builder.sub(last, pixel) if mirrored else pixel
                for i, (mean, factor) in enumerate(zip(less, factors, strict=True)):
                    value = _floats(lanes, read, order[i * LANES :][:LANES])
                    value = lanes.multiply(lanes.subtract(value, mean), factor)
                    store(value, lanes.at(end, lanes.product(place, number), i * LANES))

            lines(several, lanes.quotient(lanes.sum(args[9], lanes.integer(pixels - 1)), pixels))

        def one(pixel: Value, begin: Value, end: Value) -> None:
            mirrored = builder.sub(builder.sub(args[9], lanes.integer(1)), pixel)
            place = lanes.product(builder.select(args[10], mirrored, pixel), number)
            for c in range(number):
                channel = number - 1 - c if backwards else c
                apart = lanes.product(args[5], channel) if planar else channel
                at = lanes.product(pixel, 1 if planar else number)
                value = builder.uitofp(builder.load(lanes.at(begin, at, apart)), _FLOAT)
                mean, factor = (builder.load(lanes.at(it, c)) for it in (means, scales))
                value = builder.fmul(builder.fsub(value, mean), factor)
                builder.store(value, lanes.at(end, place, c))

        is_short = builder.icmp_signed("<", last, lanes.integer(0))
        with builder.if_else(is_short) as (short, long):
            with short:
                lines(one, args[9])
            with long, builder.if_else(args[10]) as (turned, straight):
                for mirrored, chosen in ((True, turned), (False, straight)):
                    with chosen, builder.if_else(args[11]) as (past, through):
                        with past:
                            emit(mirrored, lanes.store_past)
                        with through:
                            emit(mirrored, lanes.store)
        return context.get_dummy_value()

    return signature, generate


COPIED: Final = TileFunction(
    copied_tile, ("channels", "is_planar", "is_reversed", "size"), picture=types.uint8
)


def _order(channels: int, planar: bool, mirrored: bool, backwards: bool, step: int) -> list[int]:
    """Which of the bytes read becomes which of the `step` values."""
    pixels = step // channels
    found = []
    for pixel in range(pixels)[:: -1 if mirrored else 1]:
        for c in range(channels)[:: -1 if backwards else 1]:
            found.append(c * pixels + pixel if planar else pixel * channels + c)
    return found


def _read(lanes: Lanes, source: Value, plane: Value, planes: int, step: int) -> Value:
    """The bytes of a step as one vector: as many from each of the planes."""
    size = step // planes
    builder, kind = lanes.builder, ir.VectorType(_BYTES, size)
    parts = []
    for i in range(planes):
        begin = lanes.at(source, lanes.product(plane, i)) if i else source
        parts.append(builder.load(builder.bitcast(begin, kind.as_pointer()), align=1))
    if planes == 1:
        return parts[0]
    head = lanes.shuffle(parts[0], parts[1], range(2 * size))
    rest = lanes.shuffle(parts[2], ir.Constant(kind, ir.Undefined), range(2 * size))
    return lanes.shuffle(head, rest, range(3 * size))


def _floats(lanes: Lanes, read: Value, order: list[int]) -> Value:
    """Some of the bytes as floats."""
    builder = lanes.builder
    chosen = lanes.shuffle(read, ir.Constant(read.type, ir.Undefined), order)
    wide = builder.zext(chosen, ir.VectorType(_INT32, LANES))
    return builder.sitofp(wide, ir.VectorType(_FLOAT, LANES))
