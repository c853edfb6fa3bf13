# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""The inner loops of pooling, as Numba intrinsics: one target pixel, or some of its channels.

A table (`kernels.pooling.windows.Links`) lists the pixels that contribute to the target, from
`first` to before `last`. The pixels that the next target is the first to need, from `first_fresh`
to before `last_fresh`, are prefetched: the processor does not predict so many short reads side by
side. Pixel p begins at p * distance. Indices and distances count elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numba import types

from vectorized_ops.numba.emit.argmax_places import Places
from vectorized_ops.numba.emit.flow import fold, groups, if_any_is_nan, repeat
from vectorized_ops.numba.emit.gradient_store import Delivery
from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value, tile

GROUP, MEAN_GROUP = 4, 8
"""Vectors that walk the table together: as many as leave registers free. Means need the fewest, and
read from the most pixels."""


@dataclass(frozen=True)
class _Table:
    """Emits the walk over the links of a target."""

    lanes: Lanes
    sources: Value
    first: Value
    last: Value
    fresh: Value
    first_fresh: Value
    last_fresh: Value

    def walk(
        self, start: list[Value], body: Callable[[Value, Value, list[Value]], list[Value]]
    ) -> list[Value]:
        """Run `body(link, pixel, values) -> values` for each link."""

        def step(index: Value, values: list[Value]) -> list[Value]:
            pixel = self.lanes.load_integer(self.lanes.at(self.sources, index))
            return body(index, pixel, values)

        return fold(self.lanes, self.first, self.last, start, step)

    def ask(self, array: Value, distance: Value, offset: Value, lines: int) -> None:
        """Ask for some vectors (or the bytes of GROUP) of the pixels that are needed next."""
        lanes = self.lanes

        def line(index: Value) -> None:
            number = lanes.load_integer(lanes.at(self.fresh, lanes.sum(self.first_fresh, index)))
            pixel = lanes.at(array, lanes.product(number, distance), offset)
            for i in range(lines):
                lanes.prefetch(lanes.at(pixel, i * LANES), level=2)

        repeat(lanes, lanes.builder.sub(self.last_fresh, self.first_fresh), line)


def _above(
    lanes: Lanes, value: Value, place: Value, best: Value, which: Value, total: Value
) -> list[Value]:
    """Return the larger value, its place, and the sum of all seen, which tells of NaN."""
    larger = lanes.compare(value, ">", best)
    best = lanes.select(larger, value, best)
    return [best, lanes.select(larger, place, which), lanes.add(total, value)]


def _above_or_nan(
    lanes: Lanes, value: Value, place: Value, best: Value, which: Value
) -> list[Value]:
    """Return the larger value and its place, NaN being larger than all others."""
    return [*lanes.larger(best, which, value, place)]


@tile
def maximum_tile(
    typingctx: Any, out: Any, which: Any, out_index: Any, which_index: Any, images: Any,
    images_index: Any, distance: Any, places: Any, vectors: Any, past: Any, sources: Any,
    first: Any, last: Any, fresh: Any, first_fresh: Any, last_fresh: Any,
) -> Any:  # fmt: skip
    """Write the largest of the sources of `vectors` vectors, and the place of each as a byte."""
    signature = types.void(
        out, which, types.int64, types.int64, images, types.int64, types.int64, places, types.int64,
        types.boolean, sources, types.int64, types.int64, fresh, types.int64, types.int64,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, winners = lanes.pointer(0, args[0], args[2]), lanes.pointer(1, args[1], args[3])
        values, names = lanes.pointer(4, args[4], args[5]), lanes.pointer(7, args[7])
        table, kinds = _table(lanes, args, 10), Places(lanes)

        def group(offset: Value, number: int) -> None:
            def walk(start: list[Value], better: Callable[..., list[Value]]) -> list[Value]:
                def body(link: Value, pixel: Value, best: list[Value]) -> list[Value]:
                    place = kinds.spread(lanes.load_integer(lanes.at(names, link)))
                    source = lanes.at(values, lanes.product(pixel, args[6]), offset)
                    results = []
                    for i in range(number):
                        value = lanes.load(lanes.at(source, i * LANES))
                        results.append(better(lanes, value, place, *best[i::number]))
                    return [part for parts in zip(*results, strict=True) for part in parts]

                return table.walk(start, body)

            def store(best: list[Value]) -> None:
                for i in range(number):
                    lanes.store_streamed(best[i], lanes.at(target, offset, i * LANES), args[9])
                    place = lanes.at(winners, offset, i * LANES)
                    kinds.store(best[number + i], place, args[9])

            first = kinds.spread(lanes.load_integer(lanes.at(names, table.first)))
            start = [lanes.constant(-math.inf)] * number + [first] * number
            best = walk(start + [lanes.constant(0.0)] * number, _above)
            store(best)
            # A sum is NaN if a summand is; or for inf - inf, which costs no more than time.
            if_any_is_nan(lanes, best[2 * number :], lambda: store(walk(start, _above_or_nan)))
            table.ask(values, args[6], offset, number)

        groups(lanes, args[8], GROUP, group)
        return context.get_dummy_value()

    return signature, generate


def _table(lanes: Lanes, args: list[Value], position: int) -> _Table:
    """Return the table that the arguments from a position on describe."""
    sources = lanes.pointer(position, args[position])
    fresh = lanes.pointer(position + 3, args[position + 3])
    first, last = args[position + 1 : position + 3]
    return _Table(lanes, sources, first, last, fresh, *args[position + 4 : position + 6])


@tile
def winners_tile(
    typingctx: Any, out: Any, out_index: Any, mask: Any, mask_index: Any, add: Any, masked: Any,
    past: Any, gradient: Any, gradient_index: Any, gradient_distance: Any, which: Any,
    which_index: Any, which_distance: Any, places: Any, vectors: Any, sources: Any, first: Any,
    last: Any, fresh: Any, first_fresh: Any, last_fresh: Any,
) -> Any:  # fmt: skip
    """Deliver the sum of the gradients of those windows in which this pixel has won."""
    signature = types.void(
        out, types.int64, mask, types.int64, types.boolean, types.boolean, types.boolean, gradient,
        types.int64, types.int64, which, types.int64, types.int64, places, types.int64, sources,
        types.int64, types.int64, fresh, types.int64, types.int64,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, cut = lanes.pointer(0, args[0], args[1]), lanes.pointer(2, args[2], args[3])
        delivery, table = Delivery(lanes, target, cut, *args[4:7]), _table(lanes, args, 15)
        values, winners = lanes.pointer(7, args[7], args[8]), lanes.pointer(10, args[10], args[11])
        names, kinds = lanes.pointer(13, args[13]), Places(lanes)

        def group(offset: Value, number: int) -> None:
            def body(link: Value, pixel: Value, sums: list[Value]) -> list[Value]:
                place = kinds.spread(lanes.load_integer(lanes.at(names, link)))
                slopes = lanes.at(values, lanes.product(pixel, args[9]), offset)
                won, results = lanes.at(winners, lanes.product(pixel, args[12]), offset), []
                for i, total in enumerate(sums):
                    slope = lanes.load(lanes.at(slopes, i * LANES))
                    same = kinds.same(kinds.load(lanes.at(won, i * LANES)), place)
                    results.append(lanes.select(same, lanes.add(total, slope), total))
                return results

            delivery.write(table.walk([lanes.constant(0.0)] * number, body), offset)
            table.ask(values, args[9], offset, number)
            table.ask(winners, args[12], offset, 1)

        groups(lanes, args[14], GROUP, group)
        return context.get_dummy_value()

    return signature, generate


@tile
def mean_tile(
    typingctx: Any, out: Any, out_index: Any, mask: Any, mask_index: Any, add: Any, masked: Any,
    past: Any, values: Any, values_index: Any, distance: Any, factors: Any, vectors: Any,
    sources: Any, first: Any, last: Any, fresh: Any, first_fresh: Any, last_fresh: Any,
) -> Any:  # fmt: skip
    """Deliver the sum of the sources, each times its factor."""
    signature = types.void(
        out, types.int64, mask, types.int64, types.boolean, types.boolean, types.boolean, values,
        types.int64, types.int64, factors, types.int64, sources, types.int64, types.int64, fresh,
        types.int64, types.int64,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, cut = lanes.pointer(0, args[0], args[1]), lanes.pointer(2, args[2], args[3])
        delivery, table = Delivery(lanes, target, cut, *args[4:7]), _table(lanes, args, 12)
        inputs, shares = lanes.pointer(7, args[7], args[8]), lanes.pointer(10, args[10])

        def group(offset: Value, number: int) -> None:
            def body(link: Value, pixel: Value, sums: list[Value]) -> list[Value]:
                source = lanes.at(inputs, lanes.product(pixel, args[9]), offset)
                factor = lanes.broadcast(lanes.at(shares, link))
                return [
                    lanes.fma(lanes.load(lanes.at(source, i * LANES)), factor, total)
                    for i, total in enumerate(sums)
                ]

            delivery.write(table.walk([lanes.constant(0.0)] * number, body), offset)
            table.ask(inputs, args[9], offset, number)

        groups(lanes, args[11], MEAN_GROUP, group)
        return context.get_dummy_value()

    return signature, generate
