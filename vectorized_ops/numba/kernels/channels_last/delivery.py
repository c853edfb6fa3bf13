"""How gradients arrive in vectors of channels: see `vectorized_ops.reference.gradient`."""

from __future__ import annotations

from dataclasses import dataclass

from vectorized_ops.numba.emit.flow import when
from vectorized_ops.numba.emit.lanes import Lanes, Value
from vectorized_ops.numba.kernels.channels_last.lanes import load_lanes, store_lanes


@dataclass(frozen=True)
class Delivery:
    """Emits the end of a backward pass: add to what is there, cut where the mask is <= 0, store.

    `add`, `masked` and `past` (the caches) are flags known at run time only.
    """

    lanes: Lanes
    add: Value
    masked: Value
    past: Value

    def write(
        self, results: list[Value], out: list[Value], masks: list[Value], inside: Value | None
    ) -> None:
        """Deliver vectors, each to an address, by a mask at another; only the lanes `inside`."""
        lanes = self.lanes

        def added(values: list[Value]) -> list[Value]:
            return [
                lanes.add(value, load_lanes(lanes, place, inside))
                for value, place in zip(values, out, strict=True)
            ]

        def cut(values: list[Value]) -> list[Value]:
            return [
                lanes.zero_unless_positive(load_lanes(lanes, place, inside), value)
                for value, place in zip(values, masks, strict=True)
            ]

        results = when(lanes, self.masked, when(lanes, self.add, results, added), cut)
        for value, place in zip(results, out, strict=True):
            store_lanes(lanes, value, place, inside, self.past)
