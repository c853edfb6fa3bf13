# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""From bytes of a line to normalised floats, as a Numba intrinsic. Indices count elements.

Three channels lie side by side in a picture's pixel, so a line's mirror image is no reversal of its
bytes. 16 pixels are 48 bytes: they are loaded at once, and one shuffle brings them into any order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types

from vectorized_ops.numba.emit.flow import repeat
from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value, tile

STEP = 48
"""Bytes between two jumps: whole pixels of one or three channels, and whole vectors."""

SHORT_STEP = LANES
"""The same of one channel in lines that are shorter than `STEP`."""

_BYTES, _INT32, _FLOAT = ir.IntType(8), ir.IntType(32), ir.FloatType()


@tile
def normalised_tile(
    typingctx: Any, out: Any, out_index: Any, picture: Any, index: Any, plane: Any, means: Any,
    scales: Any, steps: Any, flipped: Any, past: Any, channels: Any, is_planar: Any,
    is_reversed: Any, size: Any,
) -> Any:  # fmt: skip
    """Write `steps` times `size` values (v - mean) * scale of a line of a picture.

    `size` is STEP or SHORT_STEP. Means and scales are repeated for as many values. A line that is
    `flipped` is written backwards, from its end: the memory's prefetchers read ahead, not behind.
    The channels of a planar picture are `plane` apart, those of a reversed one are read from the
    last to the first.
    """
    number, step = channels.literal_value, size.literal_value
    planar, backwards = bool(is_planar.literal_value), bool(is_reversed.literal_value)
    signature = types.void(
        out, types.int64, picture, types.int64, types.int64, means, scales, types.int64,
        types.boolean, types.boolean, channels, is_planar, is_reversed, size,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, source = lanes.pointer(0, *args[0:2]), lanes.pointer(2, *args[2:4])
        means, scales = lanes.pointer(5, args[5]), lanes.pointer(6, args[6])
        factors = [lanes.load(lanes.at(scales, i)) for i in range(0, step, LANES)]
        less = [lanes.load(lanes.at(means, i)) for i in range(0, step, LANES)]
        pixels = step // number
        stride = pixels if planar else step

        def emit(mirrored: bool, store: Callable[[Value, Value], None]) -> None:
            order = _order(number, planar, mirrored, backwards, step)

            def at(turn: Value) -> None:
                last = builder.sub(builder.sub(args[7], turn), lanes.integer(1))
                begin = lanes.at(source, lanes.product(turn, stride))
                read = _read(lanes, begin, args[4], number if planar else 1, stride)
                written = lanes.at(target, lanes.product(last if mirrored else turn, step))
                for i, (mean, factor) in enumerate(zip(less, factors, strict=True)):
                    value = _floats(lanes, read, order[i * LANES :][:LANES])
                    value = lanes.multiply(lanes.subtract(value, mean), factor)
                    store(value, lanes.at(written, i * LANES))

            repeat(lanes, args[7], at)

        with builder.if_else(args[8]) as (mirrored, straight):
            with mirrored, builder.if_else(args[9]) as (past, through):
                with past:
                    emit(True, lanes.store_past)
                with through:
                    emit(True, lanes.store)
            with straight, builder.if_else(args[9]) as (past, through):
                with past:
                    emit(False, lanes.store_past)
                with through:
                    emit(False, lanes.store)
        return context.get_dummy_value()

    return signature, generate


def _order(channels: int, planar: bool, mirrored: bool, backwards: bool, step: int) -> list[int]:
    """Which of the bytes read becomes which of the `step` values."""
    pixels = step // channels
    found = []
    for pixel in range(pixels)[:: -1 if mirrored else 1]:
        for c in range(channels)[:: -1 if backwards else 1]:
            found.append(c * pixels + pixel if planar else pixel * channels + c)
    return found


def _read(lanes: Lanes, source: Value, plane: Value, planes: int, size: int) -> Value:
    """The bytes of a step as one vector: `size` from each of the planes."""
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
