"""Vectors of neighbouring channels, which `vectorized_ops.numba.emit.lanes` knows nothing of.

The last vector of a pixel may be filled in part only; a mask then keeps the rest of its lanes from
being read or written.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils

from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value

_INT32 = ir.IntType(32)


def first_lanes(lanes: Lanes, number: Value) -> Value:
    """Return the mask of the first `number` lanes."""
    return lanes.builder.icmp_unsigned("<", lanes.lane_numbers(), lanes.same(number))


def load_lanes(lanes: Lanes, pointer: Value, mask: Value | None) -> Value:
    """Return the floats at `pointer`; with a mask only its lanes are read, the others are zero."""
    if mask is None:
        return lanes.load(pointer)
    zero = lanes.constant(0.0)
    vector = at_type(lanes, pointer, zero.type)
    kind = ir.FunctionType(zero.type, [vector.type, _INT32, mask.type, zero.type])
    load = _function(lanes, kind, f"llvm.masked.load.v{LANES}f32.p0")
    return lanes.builder.call(load, [vector, _INT32(4), mask, zero])


def store_lanes(
    lanes: Lanes, value: Value, pointer: Value, mask: Value | None, past: Value
) -> None:
    """Write a vector, past the caches if that flag is set; with a mask, write only its lanes."""
    if mask is None:
        lanes.store_streamed(value, pointer, past)
        return
    vector = at_type(lanes, pointer, value.type)
    kind = ir.FunctionType(ir.VoidType(), [value.type, vector.type, _INT32, mask.type])
    store = _function(lanes, kind, f"llvm.masked.store.v{LANES}f32.p0")
    lanes.builder.call(store, [value, vector, _INT32(4), mask])


def at_type(lanes: Lanes, pointer: Value, kind: Any) -> Value:
    """Return the address as one of `kind`."""
    return lanes.builder.bitcast(pointer, kind.as_pointer())


def larger(lanes: Lanes, left: Value, right: Value) -> Value:
    """Return the larger of two integers."""
    builder, right = lanes.builder, lanes.integer(right)
    return builder.select(builder.icmp_signed(">", left, right), left, right)


def smaller(lanes: Lanes, left: Value, right: Value) -> Value:
    """Return the smaller of two integers."""
    builder, right = lanes.builder, lanes.integer(right)
    return builder.select(builder.icmp_signed("<", left, right), left, right)


def _function(lanes: Lanes, kind: Any, name: str) -> Any:
    return cgutils.get_or_insert_function(lanes.builder.module, kind, name)  # type: ignore[no-untyped-call]
