"""How gradients of data arrive in vectors: see `vectorized_ops.reference.gradient`."""

from __future__ import annotations

from dataclasses import dataclass

from vectorized_ops.numba._flow import when
from vectorized_ops.numba._lanes import LANES, Lanes, Value


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
        lanes = self.lanes
        places = [i * LANES for i in range(len(results))]

        def added(values: list[Value]) -> list[Value]:
            return [
                lanes.add(value, lanes.load(lanes.at(self.out, offset, place)))
                for value, place in zip(values, places, strict=True)
            ]

        def cut(values: list[Value]) -> list[Value]:
            zero, kept = lanes.constant(0.0), []
            for value, place in zip(values, places, strict=True):
                output = lanes.load(lanes.at(self.mask, offset, place))
                kept.append(lanes.select(lanes.compare(output, "<=", zero), zero, value))
            return kept

        results = when(lanes, self.masked, when(lanes, self.add, results, added), cut)
        for value, place in zip(results, places, strict=True):
            lanes.store_streamed(value, lanes.at(self.out, offset, place), self.past)
