# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""The inner loop of selections of channels, as a Numba intrinsic. Indices count elements.

A channel of a pixel is a row of images. Runs are neighbouring channels that stay neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types

from vectorized_ops.numba.emit.flow import groups, repeat
from vectorized_ops.numba.emit.gradient_store import Delivery
from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value, tile

GROUP = 2
"""Vectors between two jumps: most rows have few."""

Store = Callable[[list[Value], Value], None]
"""Writes vectors from an offset in `out` on."""


@tile
def selected_tile(
    typingctx: Any, out: Any, out_index: Any, mask: Any, mask_index: Any, values: Any,
    values_index: Any, runs: Any, count: Any, row: Any, ahead: Any, add: Any, masked: Any,
    past: Any,
) -> Any:  # fmt: skip
    """Deliver `count` runs of one pixel, as `emit.gradient_store` describes.

    A run is (first channel, first channel of its source or less than 0, how many). Without a source
    it is zero. What lies `ahead` of the source, as in the next pixel, is fetched.
    """
    signature = types.void(
        out, types.int64, mask, types.int64, values, types.int64, runs, types.int64, types.int64,
        types.int64, types.boolean, types.boolean, types.boolean,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, cut, source = (lanes.pointer(i, *args[i : i + 2]) for i in (0, 2, 4))
        selection = _Selection(lanes, source, lanes.pointer(6, args[6]), *args[7:10])
        delivery = Delivery(lanes, target, cut, *args[10:])

        def storing(store: Callable[[Value, Value], None]) -> Store:
            def write(vectors: list[Value], offset: Value) -> None:
                for i, vector in enumerate(vectors):
                    store(vector, lanes.at(target, offset, i * LANES))

            return write

        with builder.if_else(builder.or_(args[10], args[11])) as (changed, plain):
            with changed:
                selection.emit(delivery.write)
            with plain, builder.if_else(args[12]) as (streamed, through):
                with streamed:
                    selection.emit(storing(lanes.store_past))
                with through:
                    selection.emit(storing(lanes.store))
        return context.get_dummy_value()

    return signature, generate


class _Selection:
    """Emits the loops over runs and their vectors."""

    def __init__(
        self, lanes: Lanes, source: Value, runs: Value, count: Value, row: Value, ahead: Value
    ) -> None:
        self._lanes, self._source, self._runs = lanes, source, runs
        self._count, self._row, self._ahead = count, row, ahead

    def emit(self, store: Store) -> None:
        """Emit all of them, with the way to write."""
        repeat(self._lanes, self._count, lambda run: self._run(run, store))

    def _run(self, run: Value, store: Store) -> None:
        lanes, builder = self._lanes, self._lanes.builder
        begin = lanes.at(self._runs, lanes.product(run, 3))
        first, source, size = (
            lanes.product(lanes.load_integer(lanes.at(begin, i)), self._row) for i in range(3)
        )
        vectors = lanes.quotient(size, LANES)

        def copied(offset: Value, number: int) -> None:
            begin = lanes.at(self._source, source, offset)
            places = [lanes.at(begin, i * LANES) for i in range(number)]
            for place in places:
                lanes.prefetch(lanes.at(place, self._ahead), 2)
            store([lanes.load(place) for place in places], lanes.sum(offset, first))

        def zeros(offset: Value, number: int) -> None:
            store([lanes.constant(0.0)] * number, lanes.sum(offset, first))

        has_source = builder.icmp_signed(">=", source, lanes.integer(0))
        with builder.if_else(has_source) as (some, none):
            with some:
                groups(lanes, vectors, GROUP, copied)
            with none:
                groups(lanes, vectors, GROUP, zeros)
