"""Vectors of neighbouring channels, which `vectorized_ops.numba.emit.lanes` knows nothing of.

The last vector of a pixel may be filled in part only; a mask then keeps the rest of its lanes from
being read or written. Arrays of activations are float32 or bfloat16, vectors are float32.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from vectorized_ops.numba.emit import bfloat16
from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value

_INT32, _FLOAT = ir.IntType(32), ir.FloatType()
_BYTES, _INDICES = ir.VectorType(ir.IntType(8), LANES), ir.VectorType(_INT32, LANES)


def element_of(signature: Any) -> Any:
    """Return LLVM's type of an activation, from what a pass is given behind its arguments.

    That is the dtype of the arrays at the addresses among these: float32, or uint16 for bfloat16.
    """
    return bfloat16.BITS if signature.args[1].dtype == types.uint16 else _FLOAT


def first_lanes(lanes: Lanes, number: Value) -> Value:
    """Return the mask of the first `number` lanes."""
    return lanes.builder.icmp_unsigned("<", lanes.lane_numbers(), lanes.same(number))


def load_lanes(lanes: Lanes, pointer: Value, mask: Value | None) -> Value:
    """Return the floats at `pointer`; with a mask only its lanes are read, the others are zero."""
    if mask is None:
        return lanes.load(pointer)
    stored, name, size = _stored(pointer)
    vector = at_type(lanes, pointer, stored)
    kind = ir.FunctionType(stored, [vector.type, _INT32, mask.type, stored])
    load = _function(lanes, kind, f"llvm.masked.load.{name}")
    value = lanes.builder.call(load, [vector, _INT32(size), mask, ir.Constant(stored, None)])
    return value if stored.element == _FLOAT else bfloat16.widened(lanes.builder, value)


def store_lanes(
    lanes: Lanes, value: Value, pointer: Value, mask: Value | None, past: Value
) -> None:
    """Write a vector, past the caches if that flag is set; with a mask, write only its lanes."""
    if mask is None:
        lanes.store_streamed(value, pointer, past)
        return
    stored, name, size = _stored(pointer)
    if stored.element != _FLOAT:
        value = bfloat16.narrowed(lanes.builder, value)
    vector = at_type(lanes, pointer, stored)
    kind = ir.FunctionType(ir.VoidType(), [stored, vector.type, _INT32, mask.type])
    store = _function(lanes, kind, f"llvm.masked.store.{name}")
    lanes.builder.call(store, [value, vector, _INT32(size), mask])


def load_bytes(lanes: Lanes, pointer: Value, mask: Value | None) -> Value:
    """Return the bytes at `pointer` as lane integers; with a mask only its lanes are read."""
    if mask is None:
        return lanes.load_bytes(pointer)
    place = at_type(lanes, pointer, _BYTES)
    kind = ir.FunctionType(_BYTES, [place.type, _INT32, mask.type, _BYTES])
    load = _function(lanes, kind, f"llvm.masked.load.v{LANES}i8.p0")
    narrow = lanes.builder.call(load, [place, _INT32(1), mask, ir.Constant(_BYTES, None)])
    return lanes.builder.zext(narrow, _INDICES)


def store_bytes(lanes: Lanes, which: Value, pointer: Value, mask: Value | None) -> None:
    """Write small lane integers as bytes; with a mask, write only its lanes."""
    if mask is None:
        lanes.store_bytes(which, pointer)
        return
    place = at_type(lanes, pointer, _BYTES)
    kind = ir.FunctionType(ir.VoidType(), [_BYTES, place.type, _INT32, mask.type])
    store = _function(lanes, kind, f"llvm.masked.store.v{LANES}i8.p0")
    narrow = lanes.builder.trunc(which, _BYTES)
    lanes.builder.call(store, [narrow, place, _INT32(1), mask])


def _stored(pointer: Value) -> tuple[Any, str, int]:
    """Return the vector that lies at `pointer`, LLVM's name for it, and the bytes of an element."""
    element = pointer.type.pointee
    name, size = ("f32", 4) if element == _FLOAT else ("i16", 2)
    return ir.VectorType(element, LANES), f"v{LANES}{name}.p0", size


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
