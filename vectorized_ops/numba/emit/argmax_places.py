"""Places in a window, one per lane, each a byte in memory.

In registers they are bytes too where the processor selects bytes by masks (AVX-512BW and VL): then
a place costs a quarter of what a value costs. Elsewhere (Knights Landing, AVX2) a lane integer is
as wide as the comparison that decides about it, and nothing has to be narrowed but at the end.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from vectorized_ops.numba.compiling.compiler import target_selects_bytes
from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value

NOWHERE = 255
"""What stands for a place that no window of less than 256 pixels has."""

_BYTES = ir.VectorType(ir.IntType(8), LANES)
_LANES = _BYTES if target_selects_bytes() else ir.VectorType(ir.IntType(32), LANES)


class Places:
    """Emits what is done with places."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._builder: Any = lanes.builder

    def constant(self, number: int) -> Value:
        """Return the same place in all lanes."""
        return ir.Constant(_LANES, [number] * LANES)

    def spread(self, number: Value) -> Value:
        """Return a 64-bit integer below 256 in all lanes."""
        builder, undefined = self._builder, ir.Constant(_LANES, ir.Undefined)
        narrow, first = builder.trunc(number, _LANES.element), ir.IntType(32)(0)
        order = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return builder.shuffle_vector(
            builder.insert_element(undefined, narrow, first), undefined, order
        )

    def less(self, place: Value, number: int) -> Value:
        """Return place - number."""
        return self._builder.sub(place, self.constant(number)) if number else place

    def more(self, place: Value, other: Value) -> Value:
        """Return place + other."""
        return self._builder.add(place, other)

    def same(self, left: Value, right: Value) -> Value:
        """Return in which lanes two places are the same."""
        return self._builder.icmp_signed("==", left, right)

    def load(self, pointer: Value) -> Value:
        """Return the places of `LANES` bytes."""
        pointer = self._builder.bitcast(pointer, _BYTES.as_pointer())
        narrow = self._builder.load(pointer, align=1)
        return narrow if _LANES == _BYTES else self._builder.zext(narrow, _LANES)

    def store_near(self, places: Value, pointer: Value) -> None:
        """Write places as bytes."""
        self._builder.store(self._narrow(places), self._bytes_at(pointer), align=1)

    def store(self, places: Value, pointer: Value, past: Value) -> None:
        """Write places as bytes; past the caches if the flag is set (at whole vectors only)."""
        builder = self._builder
        with builder.if_else(past) as (streamed, through):
            with streamed:
                narrow, target = self._narrow(places), self._bytes_at(pointer)
                store = builder.store(narrow, target, align=LANES)
                store.set_metadata("nontemporal", builder.module.add_metadata([ir.IntType(32)(1)]))
            with through:
                self.store_near(places, pointer)

    def _narrow(self, places: Value) -> Value:
        return places if _LANES == _BYTES else self._builder.trunc(places, _BYTES)

    def _bytes_at(self, pointer: Value) -> Value:
        return self._builder.bitcast(pointer, _BYTES.as_pointer())
