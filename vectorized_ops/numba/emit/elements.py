# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""Single elements of flat arrays of float32 or bfloat16, for loops that Numba compiles.

An array of bfloat16 has NumPy's uint16, see `emit.bfloat16`; indexed as usual it gives its bits.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from vectorized_ops.numba.emit import bfloat16
from vectorized_ops.numba.emit.lanes import tile

_INT32, _FLOAT = ir.IntType(32), ir.FloatType()


@tile
def element(typingctx: Any, array: Any, index: Any) -> Any:
    """The element of a flat array as float32; that of uint32, a pair of bfloat16, as its bits."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        value = builder.load(builder.gep(data, [args[1]]))
        if signature.args[0].dtype == types.uint16:
            return bfloat16.widened(builder, value)
        return builder.bitcast(value, _FLOAT)

    return types.float32(array, types.int64), generate


@tile
def store_element(typingctx: Any, array: Any, index: Any, value: Any) -> Any:
    """Write a float32 to the element of a flat array, rounded if that is bfloat16.

    To one of uint32 the bits are written.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data, value = context.make_array(signature.args[0])(context, builder, args[0]).data, args[2]
        if signature.args[0].dtype == types.uint16:
            value = bfloat16.narrowed(builder, value)
        place = builder.gep(data, [args[1]])
        builder.store(builder.bitcast(value, place.type.pointee), place)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.float32), generate


@tile
def as_pair(typingctx: Any, first: Any, second: Any) -> Any:
    """A float32 whose bits are two float32 rounded to bfloat16, the first in the lower half."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return bfloat16.paired(builder, *args)

    return types.float32(types.float32, types.float32), generate


@tile
def sum_of_pair(typingctx: Any, pair: Any) -> Any:
    """The sum of both bfloat16 in the bits of a float32, as float32."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = builder.bitcast(args[0], _INT32)
        high = builder.and_(bits, _INT32(0xFFFF0000))
        halves = [builder.bitcast(each, _FLOAT) for each in (builder.shl(bits, _INT32(16)), high)]
        return builder.fadd(*halves)

    return types.float32(types.float32), generate
