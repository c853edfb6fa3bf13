# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""Local response normalisation of one pixel over SIZE channels, as Numba intrinsics.

The exponent is 3/4. A column of the pixel, one or two vectors of images, is followed through its
channels, at least SIZE. Its window is in registers: a value is read from memory, then from a cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from numba import types

from vectorized_ops.numba.emit.flow import fold, groups
from vectorized_ops.numba.emit.gradient_store import Delivery
from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value, tile
from vectorized_ops.numba.kernels.arithmetic import lrn as arithmetic

SIZE = 5
_SIDE = SIZE // 2


def _sum(lanes: Lanes, vectors: Sequence[Value]) -> Value:
    """Return the sum of some vectors, neighbours first."""
    vectors = list(vectors)
    while len(vectors) > 1:
        pairs = [lanes.add(*vectors[i : i + 2]) for i in range(0, len(vectors) - 1, 2)]
        vectors = pairs + vectors[2 * len(pairs) :]
    return vectors[0]


@dataclass(frozen=True)
class _Column:
    """Emits the reads of a column of `group` vectors, and what becomes of their windows.

    Lists hold the vectors of one channel after those of another.
    """

    lanes: Lanes
    group: int
    source: Value
    row: Value
    factor: Value
    bias: Value

    def load(self, pointer: Value, channel: Value) -> list[Value]:
        """Return a channel of the array whose column begins at `pointer`."""
        at = self.lanes.at(pointer, self.lanes.product(channel, self.row))
        return [self.lanes.load(self.lanes.at(at, i * LANES)) for i in range(self.group)]

    def squares(self, channel: Value) -> list[Value]:
        """Return the squares of a channel."""
        values = self.load(self.source, channel)
        return [self.lanes.multiply(value, value) for value in values]

    def squares_ahead(self, channel: Value) -> list[Value]:
        """Return the squares of the last channel in the window of `channel`."""
        return self.squares(self.lanes.sum(channel, _SIDE))

    def nothing(self, channels: int = 1) -> list[Value]:
        """Return what stands for channels outside the column."""
        return [self.lanes.constant(0.0)] * (channels * self.group)

    def first_squares(self) -> list[Value]:
        """Return the window of channel 0, without the last of its channels."""
        seen = [self.squares(channel) for channel in range(_SIDE)]
        return self.nothing(_SIDE) + [square for channel in seen for square in channel]

    def window_sums(self, window: list[Value]) -> list[Value]:
        """Return the sum of what a window holds, for each vector of the group."""
        return [_sum(self.lanes, window[i :: self.group]) for i in range(self.group)]

    def powers(self, squares: list[Value]) -> list[tuple[Value, Value]]:
        """Return s^-3/4 and s^-1 for a window of squares."""
        sums = self.window_sums(squares)
        scales = [self.lanes.fma(total, self.factor, self.bias) for total in sums]
        return [arithmetic.powers(self.lanes, scale, quarters=3) for scale in scales]

    def responses(self, above: Value, channel: Value, squares: list[Value]) -> list[list[Value]]:
        """Return g * s^-3/4 and g * x * s^-7/4 of a channel, g being read from `above`."""
        slopes, values = self.load(above, channel), self.load(self.source, channel)
        parts = [
            arithmetic.gradient_parts(self.lanes, value, slope, *powers)
            for value, slope, powers in zip(values, slopes, self.powers(squares), strict=True)
        ]
        return [list(kind) for kind in zip(*parts, strict=True)]


@tile
def responses_tile(
    typingctx: Any, out: Any, out_index: Any, values: Any, values_index: Any, row: Any,
    channels: Any, factor: Any, bias: Any, past: Any,
) -> Any:  # fmt: skip
    """Write x * s^-3/4 of one pixel; its channels are rows of `row` images."""
    signature = types.void(
        out, types.int64, values, types.int64, types.int64, types.int64, types.float32,
        types.float32, types.boolean,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, source = lanes.pointer(0, args[0], args[1]), lanes.pointer(2, args[2], args[3])
        factor, bias = lanes.copies(args[6]), lanes.copies(args[7])

        def columns(offset: Value, group: int) -> None:
            column = _Column(lanes, group, lanes.at(source, offset), args[4], factor, bias)

            def moved(newest: Callable[[Value], list[Value]]) -> Callable[..., list[Value]]:
                def body(channel: Value, window: list[Value]) -> list[Value]:
                    window = window + newest(channel)
                    values = column.load(column.source, channel)
                    at = lanes.at(target, offset, lanes.product(channel, args[4]))
                    for i, (power, _) in enumerate(column.powers(window)):
                        result = lanes.multiply(values[i], power)
                        lanes.store_streamed(result, lanes.at(at, i * LANES), args[8])
                    return window[group:]

                return body

            inner = lanes.sum(args[5], -_SIDE)
            window = fold(lanes, 0, inner, column.first_squares(), moved(column.squares_ahead))
            fold(lanes, inner, args[5], window, moved(lambda _channel: column.nothing()))

        groups(lanes, lanes.quotient(args[4], LANES), 2, columns)
        return context.get_dummy_value()

    return signature, generate


@tile
def response_gradients_tile(
    typingctx: Any, out: Any, out_index: Any, mask: Any, mask_index: Any, values: Any,
    values_index: Any, gradient: Any, gradient_index: Any, row: Any, channels: Any, factor: Any,
    bias: Any, add: Any, masked: Any, past: Any,
) -> Any:  # fmt: skip
    """Deliver g * s^-3/4 - 3/2 * factor * x * sum over the window of g * x * s^-7/4 of a pixel."""
    signature = types.void(
        out, types.int64, mask, types.int64, values, types.int64, gradient, types.int64,
        types.int64, types.int64, types.float32, types.float32, types.boolean, types.boolean,
        types.boolean,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, cut = lanes.pointer(0, args[0], args[1]), lanes.pointer(2, args[2], args[3])
        source, above = lanes.pointer(4, args[4], args[5]), lanes.pointer(6, args[6], args[7])
        factor, bias = lanes.copies(args[10]), lanes.copies(args[11])

        def columns(offset: Value, group: int) -> None:
            delivery = Delivery(lanes, lanes.at(target, offset), lanes.at(cut, offset), *args[12:])
            column = _Column(lanes, group, lanes.at(source, offset), args[8], factor, bias)
            _deliver_column(column, lanes.at(above, offset), args[9], delivery)

        groups(lanes, lanes.quotient(args[8], LANES), 2, columns)
        return context.get_dummy_value()

    return signature, generate


def _deliver_column(column: _Column, above: Value, channels: Value, delivery: Delivery) -> None:
    """Emit the gradients of a column; those of a channel follow when its window has been seen.

    Carried are the squares of 2 * _SIDE channels, the direct parts of _SIDE, and the parts to be
    spread of 2 * _SIDE.
    """
    lanes, group = column.lanes, column.group
    first, second = 2 * _SIDE * group, 3 * _SIDE * group
    slope = lanes.multiply(column.factor, lanes.constant(-1.5))

    def deliver(channel: Value, direct: list[Value], spread: list[Value]) -> None:
        values, results = column.load(column.source, channel), []
        for i, total in enumerate(column.window_sums(spread)):
            results.append(arithmetic.values_gradient(lanes, values[i], direct[i], total, slope))
        delivery.write(results, lanes.product(channel, column.row))

    def moved(newest: Callable[[Value], list[Value]]) -> Callable[..., list[Value]]:
        def body(channel: Value, carried: list[Value]) -> list[Value]:
            squares = carried[:first] + newest(channel)
            direct, spread = column.responses(above, channel, squares)
            direct, spread = carried[first:second] + direct, carried[second:] + spread
            deliver(lanes.sum(channel, -_SIDE), direct[:group], spread)
            return squares[group:] + direct[group:] + spread[group:]

        return body

    squares, spreads = column.first_squares(), column.nothing(_SIDE)
    directs: list[Value] = []
    for channel in range(_SIDE):
        squares = squares + column.squares_ahead(lanes.integer(channel))
        direct, spread = column.responses(above, channel, squares)
        squares, directs, spreads = squares[group:], directs + direct, spreads + spread
    inner = lanes.sum(channels, -_SIDE)
    carried = squares + directs + spreads
    carried = fold(lanes, _SIDE, inner, carried, moved(column.squares_ahead))
    carried = fold(lanes, inner, channels, carried, moved(lambda _channel: column.nothing()))
    for i in range(_SIDE):
        spread = carried[second + i * group :] + column.nothing(i + 1)
        deliver(lanes.sum(inner, i), carried[first + i * group :][:group], spread)
