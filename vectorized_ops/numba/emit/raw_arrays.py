"""Arrays that a kernel makes by itself: views of memory, and short vectors on the stack.

Kernels neither count references nor allocate memory (Numba's run-time for it, NRT, is off): their
arguments live until they return. So these are all the arrays that they make, beside slices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from llvmlite import ir
from numba.core import cgutils as numba_cgutils
from numba.core import types as numba_types
from numba.np import arrayobj as numba_arrayobj

from vectorized_ops.numba.emit.lanes import tile

arrayobj: Any = numba_arrayobj  # Numba has no types for these three.
cgutils: Any = numba_cgutils
types: Any = numba_types

Emitter = tuple[Any, Callable[..., Any]]

_INTEGER = ir.IntType(64)
_ALIGNMENT = 64
"""That of a vector on the stack, in bytes: a cache line."""


def _array(context: Any, builder: Any, kind: Any, data: Any, shape: Sequence[Any]) -> Any:
    """A contiguous array at `data`, an address or a pointer."""
    stored = context.get_data_type(kind.dtype)
    if not isinstance(data.type, ir.PointerType):
        data = builder.inttoptr(data, stored.as_pointer())
    size = context.get_abi_sizeof(stored)
    strides = [_INTEGER(size)]
    for extent in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], extent))
    made = arrayobj.make_array(kind)(context, builder)
    arrayobj.populate_array(
        made, data=data, shape=shape, strides=strides, itemsize=size, meminfo=None
    )
    return made._getvalue()


@tile
def array_at(_typing: Any, address: Any, shape: Any, dtype: Any) -> Emitter:  # noqa: ARG001
    """The contiguous array of an integer, or of a tuple of them, and a dtype at an address."""
    is_tuple = isinstance(shape, types.BaseTuple)
    extents = shape.types if is_tuple else (shape,)
    kind = types.Array(dtype.dtype, len(extents), "C")

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        parts = cgutils.unpack_tuple(builder, values[1]) if is_tuple else [values[1]]
        shaped = [
            context.cast(builder, part, of, types.intp)
            for part, of in zip(parts, extents, strict=True)
        ]
        return _array(context, builder, kind, values[0], shaped)

    return kind(types.intp, shape, dtype), generate


@tile
def row(_typing: Any, rows: Any, index: Any) -> Emitter:  # noqa: ARG001
    """Row `index` of a matrix as a contiguous vector, which is what lets LLVM use vector loads."""
    kind = types.Array(rows.dtype, 1, "C")

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        given = arrayobj.make_array(rows)(context, builder, values[0])
        (distance, _), (_, columns) = (
            cgutils.unpack_tuple(builder, each) for each in (given.strides, given.shape)
        )
        begin = cgutils.pointer_add(builder, given.data, builder.mul(values[1], distance))
        return _array(context, builder, kind, begin, [columns])

    return kind(rows, types.intp), generate


@tile
def contiguous(_typing: Any, vector: Any) -> Emitter:
    """A vector as the contiguous one that it must be."""
    kind = types.Array(vector.dtype, 1, "C")

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        given = arrayobj.make_array(vector)(context, builder, values[0])
        shape = cgutils.unpack_tuple(builder, given.shape)
        return _array(context, builder, kind, given.data, shape)

    return kind(vector), generate


@tile
def flattened(_typing: Any, array: Any) -> Emitter | None:
    """All elements of a contiguous array as a vector, as `reshape(-1)` gives them."""
    if array.layout != "C":
        return None
    kind = types.Array(array.dtype, 1, "C")

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        given = arrayobj.make_array(array)(context, builder, values[0])
        size = reduce(builder.mul, cgutils.unpack_tuple(builder, given.shape))
        return _array(context, builder, kind, given.data, [size])

    return kind(array), generate


@tile
def stack_vector(_typing: Any, size: Any, dtype: Any) -> Emitter:
    """An uninitialised vector that is there until its kernel returns.

    The size is a constant, and small: threads have stacks of some megabytes.
    """
    kind, count = types.Array(dtype.dtype, 1, "C"), size.literal_value

    def generate(context: Any, builder: Any, *_: Any) -> Any:
        data = cgutils.alloca_once(builder, context.get_data_type(kind.dtype), size=count)
        data.align = _ALIGNMENT
        return _array(context, builder, kind, data, [_INTEGER(count)])

    return kind(size, dtype), generate
