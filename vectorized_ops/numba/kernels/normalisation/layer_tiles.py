# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""Layer normalisation of some images of one pixel, as Numba intrinsics.

A channel of a pixel is a row of images. A column of it, some vectors of images, is followed through
all channels three times forward and four times back: it is read from memory once, then from a
cache. Indices and rows count elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numba import types

from vectorized_ops.numba.emit.flow import fold, groups, repeat
from vectorized_ops.numba.emit.gradient_store import Delivery
from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value, tile

GROUP = 4
"""Vectors of a column: sums that do not wait for each other."""

SUMS = 2 * LANES
"""Floats of each channel in which the sums over pixels lie: of g, then of g v."""


@dataclass(frozen=True)
class _Column:
    """Emits the reads of a column of `group` vectors; `count` is a vector of the channels' number.

    Lists hold a vector for each of the group.
    """

    lanes: Lanes
    group: int
    source: Value
    row: Value
    channels: Value
    count: Value

    def load(self, pointer: Value, channel: Value) -> list[Value]:
        """Return a channel of the array whose column begins at `pointer`."""
        begin = self.lanes.at(pointer, self.lanes.product(channel, self.row))
        return [self.lanes.load(self.lanes.at(begin, i * LANES)) for i in range(self.group)]

    def means(self, sums: Sequence[Value]) -> list[Value]:
        """Return sums over the channels by their number."""
        return [self.lanes.divide(total, self.count) for total in sums]

    def zeros(self, vectors: int = 1) -> list[Value]:
        """Return so many lists of zeros, joined."""
        return [self.lanes.constant(0.0)] * (vectors * self.group)

    def centred(self, channel: Value, mean: list[Value]) -> list[Value]:
        """Return a channel less the mean."""
        values = self.load(self.source, channel)
        return [self.lanes.subtract(*pair) for pair in zip(values, mean, strict=True)]

    def moments(self, epsilon: Value) -> tuple[list[Value], list[Value]]:
        """Return the means over channels, and 1 / sqrt(variance + epsilon)."""
        lanes = self.lanes

        def summed(channel: Value, sums: list[Value]) -> list[Value]:
            values = self.load(self.source, channel)
            return [lanes.add(*pair) for pair in zip(sums, values, strict=True)]

        mean = self.means(fold(lanes, 0, self.channels, self.zeros(), summed))

        def squared(channel: Value, sums: list[Value]) -> list[Value]:
            pairs = zip(self.centred(channel, mean), sums, strict=True)
            return [lanes.fma(value, value, total) for value, total in pairs]

        variance = self.means(fold(lanes, 0, self.channels, self.zeros(), squared))
        one = lanes.constant(1.0)
        return mean, [
            lanes.divide(one, lanes.square_root(lanes.add(each, epsilon))) for each in variance
        ]


@tile
def layer_normalised_tile(
    typingctx: Any, out: Any, out_index: Any, values: Any, values_index: Any, row: Any,
    channels: Any, vectors: Any, count: Any, scale: Any, shift: Any, epsilon: Any, past: Any,
) -> Any:  # fmt: skip
    """Write v * scale + shift, v = (x - mean) / sqrt(variance + epsilon) over the channels."""
    signature = types.void(
        out, types.int64, values, types.int64, types.int64, types.int64, types.int64,
        types.float32, scale, shift, types.float32, types.boolean,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, source = lanes.pointer(0, *args[:2]), lanes.pointer(2, *args[2:4])
        factors, summands = lanes.pointer(8, args[8]), lanes.pointer(9, args[9])
        count, epsilon = lanes.copies(args[7]), lanes.copies(args[10])

        def columns(offset: Value, group: int) -> None:
            column = _Column(lanes, group, lanes.at(source, offset), args[4], args[5], count)
            mean, inverse = column.moments(epsilon)

            def write(channel: Value) -> None:
                factor, summand = (
                    lanes.broadcast(lanes.at(each, channel)) for each in (factors, summands)
                )
                at = lanes.at(target, offset, lanes.product(channel, args[4]))
                for i, value in enumerate(column.centred(channel, mean)):
                    result = lanes.fma(lanes.multiply(value, inverse[i]), factor, summand)
                    lanes.store_streamed(result, lanes.at(at, i * LANES), args[11])

            repeat(lanes, args[5], write)

        groups(lanes, args[6], GROUP, columns)
        return context.get_dummy_value()

    return signature, generate


@tile
def layer_gradients_tile(
    typingctx: Any, out: Any, out_index: Any, mask: Any, mask_index: Any, values: Any,
    values_index: Any, gradient: Any, gradient_index: Any, row: Any, channels: Any, vectors: Any,
    count: Any, scale: Any, sums: Any, epsilon: Any, add: Any, masked: Any, past: Any,
) -> Any:  # fmt: skip
    """Deliver the gradient of the values; add those of shift and scale to SUMS floats a channel."""
    signature = types.void(
        out, types.int64, mask, types.int64, values, types.int64, gradient, types.int64,
        types.int64, types.int64, types.int64, types.float32, scale, sums, types.float32,
        types.boolean, types.boolean, types.boolean,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, cut, source, above = (lanes.pointer(i, *args[i : i + 2]) for i in (0, 2, 4, 6))
        factors, totals = lanes.pointer(12, args[12]), lanes.pointer(13, args[13])
        count, epsilon = lanes.copies(args[11]), lanes.copies(args[14])

        def columns(offset: Value, group: int) -> None:
            column = _Column(lanes, group, lanes.at(source, offset), args[8], args[9], count)
            delivery = Delivery(lanes, lanes.at(target, offset), lanes.at(cut, offset), *args[15:])
            _deliver_column(column, lanes.at(above, offset), factors, totals, epsilon, delivery)

        groups(lanes, args[10], GROUP, columns)
        return context.get_dummy_value()

    return signature, generate


def _deliver_column(
    column: _Column,
    above: Value,
    factors: Value,
    totals: Value,
    epsilon: Value,
    delivery: Delivery,
) -> None:
    """Emit the gradients of a column: (g scale - mean of it - v * mean of it times v) * inverse."""
    lanes, group = column.lanes, column.group
    mean, inverse = column.moments(epsilon)

    def parts(channel: Value) -> tuple[list[Value], list[Value], list[Value]]:
        """Return v, g and g scale of a channel."""
        normalised = [
            lanes.multiply(*pair)
            for pair in zip(column.centred(channel, mean), inverse, strict=True)
        ]
        factor = lanes.broadcast(lanes.at(factors, channel))
        arriving = column.load(above, channel)
        return normalised, arriving, [lanes.multiply(each, factor) for each in arriving]

    def summed(channel: Value, sums: list[Value]) -> list[Value]:
        normalised, arriving, scaled = parts(channel)
        places = [lanes.at(totals, lanes.product(channel, SUMS), i * LANES) for i in (0, 1)]
        shift, scale = (lanes.load(place) for place in places)
        for value, slope in zip(normalised, arriving, strict=True):
            shift, scale = lanes.add(shift, slope), lanes.fma(slope, value, scale)
        for place, total in zip(places, (shift, scale), strict=True):
            lanes.store(total, place)
        levels = [lanes.add(*pair) for pair in zip(sums[:group], scaled, strict=True)]
        tilts = zip(normalised, scaled, sums[group:], strict=True)
        return levels + [lanes.fma(*each) for each in tilts]

    found = column.means(fold(lanes, 0, column.channels, column.zeros(2), summed))
    level, tilt = found[:group], found[group:]

    def deliver(channel: Value) -> None:
        normalised, _, scaled = parts(channel)
        results = []
        for i, value in enumerate(scaled):
            rest = lanes.subtract(value, level[i])
            rest = lanes.subtract(rest, lanes.multiply(normalised[i], tilt[i]))
            results.append(lanes.multiply(rest, inverse[i]))
        delivery.write(results, lanes.product(channel, column.row))

    repeat(lanes, column.channels, deliver)
