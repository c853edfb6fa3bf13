# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""How gradients of data arrive in vectors: see `vectorized_ops.reference.gradient`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numba import types

from vectorized_ops.numba.emit.flow import groups, when
from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value, tile

GROUP = 4
"""Vectors that are cut between two jumps."""


@dataclass(frozen=True)
class Delivery:
    """Emits the end of a backward pass: add to what is there, cut where the mask is <= 0, store.

    `out` and `mask` are addresses that belong together; `add`, `masked` and `past` (the caches) are
    flags known at run time only, all of them the same for a whole pass.
    """

    lanes: Lanes
    out: Value
    mask: Value
    add: Value
    masked: Value
    past: Value

    def write(self, results: list[Value], offset: Value) -> None:
        """Deliver vectors to the places that begin `offset` elements from the addresses."""
        places = range(0, len(results) * LANES, LANES)
        out, mask = (
            [self.lanes.at(begin, offset, place) for place in places]
            for begin in (self.out, self.mask)
        )
        deliver(self.lanes, results, out, mask, self.add, self.masked, self.past)


def deliver(
    lanes: Lanes,
    results: list[Value],
    out: list[Value],
    mask: list[Value],
    add: Value,
    masked: Value,
    past: Value,
) -> None:
    """Deliver vectors, each to an address of its own, by a mask at an address of its own."""

    def added(values: list[Value]) -> list[Value]:
        return [
            lanes.add(value, lanes.load(place)) for value, place in zip(values, out, strict=True)
        ]

    def cut(values: list[Value]) -> list[Value]:
        zero, kept = lanes.constant(0.0), []
        for value, place in zip(values, mask, strict=True):
            output = lanes.load(place)
            kept.append(lanes.select(lanes.compare(output, "<=", zero), zero, value))
        return kept

    results = when(lanes, masked, when(lanes, add, results, added), cut)
    with lanes.builder.if_else(past) as (streamed, through):
        for branch, store in ((streamed, lanes.store_past), (through, lanes.store)):
            with branch:
                for value, place in zip(results, out, strict=True):
                    store(value, place)


@tile
def cut_tile(
    typingctx: Any, out: Any, out_index: Any, mask: Any, mask_index: Any, vectors: Any
) -> Any:
    """Write zero to those of `vectors` vectors from out[out_index] on whose mask is <= 0."""
    signature = types.void(out, types.int64, mask, types.int64, types.int64)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, source = lanes.pointer(0, args[0], args[1]), lanes.pointer(2, args[2], args[3])

        def group(offset: Value, number: int) -> None:
            places = [(offset, i * LANES) for i in range(number)]
            values = [
                lanes.zero_unless_positive(
                    lanes.load(lanes.at(source, *place)), lanes.load(lanes.at(target, *place))
                )
                for place in places
            ]
            for value, place in zip(values, places, strict=True):
                lanes.store(value, lanes.at(target, *place))

        groups(lanes, args[4], GROUP, group)
        return context.get_dummy_value()

    return signature, generate
