# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""Layer normalisation of some images of one pixel, as Numba intrinsics.

A channel of a pixel is a row of images. A column of it, some vectors of images, is followed through
all channels three times forward and four times back: it is read from memory once, then from a
cache. Indices and rows count elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from numba import types

from vectorized_ops.numba.emit.flow import fold, repeat
from vectorized_ops.numba.emit.gradient_store import Delivery
from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value, tile

GROUP = 4
"""Vectors of the widest column: sums that do not wait for each other."""

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

    def fetch(self, pointer: Value, channel: Value, ahead: Value) -> None:
        """Fetch a channel of the array `ahead` of the one whose column begins at `pointer`."""
        begin = self.lanes.at(pointer, self.lanes.product(channel, self.row), ahead)
        for i in range(self.group):
            self.lanes.prefetch(self.lanes.at(begin, i * LANES), 2)

    def summed(self, sums: int, terms: Callable[[Value, list[Value]], list[Value]]) -> list[Value]:
        """Return so many lists of sums over channels, joined: `terms(channel, sums)` adds to them.

        In narrow columns every other channel has sums of its own.
        """
        lanes, ways = self.lanes, max(1, GROUP // self.group)
        size = sums * self.group

        def together(index: Value, carried: list[Value]) -> list[Value]:
            first, found = lanes.product(index, ways), []
            for way in range(ways):
                own = carried[way * size : (way + 1) * size]
                found += terms(lanes.sum(first, way), own)
            return found

        whole = lanes.quotient(self.channels, ways)
        zeros = [lanes.constant(0.0)] * (ways * size)
        parts = fold(lanes, 0, whole, zeros, together)
        total = parts[:size]
        for way in range(1, ways):
            own = parts[way * size : (way + 1) * size]
            total = [lanes.add(*pair) for pair in zip(total, own, strict=True)]
        return fold(lanes, lanes.product(whole, ways), self.channels, total, terms)

    def means(self, sums: Sequence[Value]) -> list[Value]:
        """Return sums over the channels by their number."""
        return [self.lanes.divide(total, self.count) for total in sums]

    def centred(self, channel: Value, mean: list[Value]) -> list[Value]:
        """Return a channel less the mean."""
        values = self.load(self.source, channel)
        return [self.lanes.subtract(*pair) for pair in zip(values, mean, strict=True)]

    def moments(self, epsilon: Value, ahead: Value) -> tuple[list[Value], list[Value]]:
        """Return the means over channels, and 1 / sqrt(variance + epsilon).

        The values that lie `ahead` are fetched.
        """
        lanes = self.lanes

        def added(channel: Value, sums: list[Value]) -> list[Value]:
            self.fetch(self.source, channel, ahead)
            values = self.load(self.source, channel)
            return [lanes.add(*pair) for pair in zip(sums, values, strict=True)]

        mean = self.means(self.summed(1, added))

        def squared(channel: Value, sums: list[Value]) -> list[Value]:
            pairs = zip(self.centred(channel, mean), sums, strict=True)
            return [lanes.fma(value, value, total) for value, total in pairs]

        variance = self.means(self.summed(1, squared))
        one = lanes.constant(1.0)
        return mean, [
            lanes.divide(one, lanes.square_root(lanes.add(each, epsilon))) for each in variance
        ]


def _each_column(lanes: Lanes, vectors: Value, body: Callable[[Value, int], None]) -> None:
    """Run `body(offset, group)` over `vectors` vectors, in columns as wide as there are."""
    done, group = lanes.integer(0), GROUP
    while group:
        count = lanes.quotient(lanes.builder.sub(lanes.integer(vectors), done), group)

        def column(index: Value, done: Value = done, group: int = group) -> None:
            begin = lanes.sum(done, lanes.product(index, group))
            body(lanes.product(begin, LANES), group)

        repeat(lanes, count, column)
        done, group = lanes.sum(done, lanes.product(count, group)), group // 2


@tile
def layer_normalised_tile(
    typingctx: Any, out: Any, out_index: Any, values: Any, values_index: Any, ahead: Any,
    row: Any, channels: Any, vectors: Any, count: Any, scale: Any, shift: Any, epsilon: Any,
    past: Any,
) -> Any:  # fmt: skip
    """Write v * scale + shift, v = (x - mean) / sqrt(variance + epsilon) over the channels."""
    signature = types.void(
        out, types.int64, values, types.int64, types.int64, types.int64, types.int64, types.int64,
        types.float32, scale, shift, types.float32, types.boolean,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, source = lanes.pointer(0, *args[:2]), lanes.pointer(2, *args[2:4])
        factors, summands = lanes.pointer(9, args[9]), lanes.pointer(10, args[10])
        count, epsilon = lanes.copies(args[8]), lanes.copies(args[11])

        def columns(offset: Value, group: int) -> None:
            column = _Column(lanes, group, lanes.at(source, offset), args[5], args[6], count)
            mean, inverse = column.moments(epsilon, args[4])

            def write(channel: Value) -> None:
                factor, summand = (
                    lanes.broadcast(lanes.at(each, channel)) for each in (factors, summands)
                )
                at = lanes.at(target, offset, lanes.product(channel, args[5]))
                for i, value in enumerate(column.centred(channel, mean)):
                    result = lanes.fma(lanes.multiply(value, inverse[i]), factor, summand)
                    lanes.store_streamed(result, lanes.at(at, i * LANES), args[12])

            repeat(lanes, args[6], write)

        _each_column(lanes, args[7], columns)
        return context.get_dummy_value()

    return signature, generate


@tile
def layer_gradients_tile(
    typingctx: Any, out: Any, out_index: Any, mask: Any, mask_index: Any, values: Any,
    values_index: Any, ahead: Any, gradient: Any, gradient_index: Any, gradient_ahead: Any,
    row: Any, channels: Any, vectors: Any, count: Any, scale: Any, sums: Any, epsilon: Any,
    add: Any, masked: Any, past: Any,
) -> Any:  # fmt: skip
    """Deliver the gradient of the values; add those of shift and scale to SUMS floats a channel."""
    signature = types.void(
        out, types.int64, mask, types.int64, values, types.int64, types.int64, gradient,
        types.int64, types.int64, types.int64, types.int64, types.int64, types.float32, scale,
        sums, types.float32, types.boolean, types.boolean, types.boolean,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, cut, source, above = (lanes.pointer(i, *args[i : i + 2]) for i in (0, 2, 4, 7))
        factors, totals = lanes.pointer(14, args[14]), lanes.pointer(15, args[15])
        count, epsilon = lanes.copies(args[13]), lanes.copies(args[16])

        def columns(offset: Value, group: int) -> None:
            column = _Column(lanes, group, lanes.at(source, offset), args[10], args[11], count)
            delivery = Delivery(lanes, lanes.at(target, offset), lanes.at(cut, offset), *args[17:])
            _deliver_column(
                column,
                lanes.at(above, offset),
                (args[6], args[9]),
                factors,
                totals,
                epsilon,
                delivery,
            )

        _each_column(lanes, args[12], columns)
        return context.get_dummy_value()

    return signature, generate


def _deliver_column(
    column: _Column,
    above: Value,
    ahead: tuple[Value, Value],
    factors: Value,
    totals: Value,
    epsilon: Value,
    delivery: Delivery,
) -> None:
    """Emit the gradients of a column: (g scale - mean of it - v * mean of it times v) * inverse."""
    lanes, group = column.lanes, column.group
    mean, inverse = column.moments(epsilon, ahead[0])

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
        column.fetch(above, channel, ahead[1])
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

    found = column.means(column.summed(2, summed))
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
