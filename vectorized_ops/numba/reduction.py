"""Reduces the vectors of several ranks to one, in one pass over memory, compiled by Numba.

Results are those of ``vectorized_ops.reference.reduction``, to the same bits. The vectors are given
by addresses: they lie in memory that processes share, or belong to other libraries.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.raw_arrays import array_at, stack_vector
from vectorized_ops.reference.reduction import AND, MAX, MEAN, MIN, OR, PRODUCT, STORED, SUM, XOR

Combine = Callable[[int, npt.NDArray[np.int64], int, int, int], None]
"""combine(out, rows, offset, count, operation): see `reduction`."""

_BLOCK = 1024
"""Elements handled at a time: sums and one row of them stay in the L1 cache."""


@functools.cache
def reduction(kind: str) -> Combine:
    """Return the compiled reduction of elements of ``kind``, a key of ``STORED``.

    ``combine(out, rows, offset, count, operation)`` writes ``count`` elements at the address
    ``out`` made of those ``offset`` bytes behind each of the addresses ``rows`` (P,) int64.
    ``out`` may begin where one of the rows does.
    """
    floating = STORED[kind].kind == "f" or kind == "bfloat16"
    accumulated = np.dtype(np.float32) if kind.endswith("float16") else STORED[kind]
    stored = np.dtype(np.uint16) if STORED[kind] == np.float16 else STORED[kind]
    widen, narrow = _widening(kind), _narrowing(kind)
    fold_rest, finish = (_no_bits, _divide) if floating else (_fold_bits, _leave)

    @kernel
    def fold(total: Any, other: Any, operation: int) -> None:
        size = total.shape[0]
        if operation in (SUM, MEAN):
            for i in range(size):
                total[i] += widen(other[i])
        elif operation == PRODUCT:
            for i in range(size):
                total[i] *= widen(other[i])
        elif operation == MIN:
            for i in range(size):
                value = widen(other[i])
                total[i] = value if value < total[i] else total[i]
        elif operation == MAX:
            for i in range(size):
                value = widen(other[i])
                total[i] = value if value > total[i] else total[i]
        else:
            fold_rest(total, other, operation)

    @kernel
    def combine(
        out: int, rows: npt.NDArray[np.int64], offset: int, count: int, operation: int
    ) -> None:
        sums = stack_vector(_BLOCK, accumulated)
        result = array_at(out, count, stored)
        for begin in range(0, count, _BLOCK):
            total = sums[: min(_BLOCK, count - begin)]
            first = array_at(rows[0] + offset, count, stored)[begin : begin + _BLOCK]
            for i in range(total.shape[0]):
                total[i] = widen(first[i])
            for row in range(1, rows.shape[0]):
                fold(
                    total,
                    array_at(rows[row] + offset, count, stored)[begin : begin + _BLOCK],
                    operation,
                )
            if operation == MEAN:
                finish(total, rows.shape[0])
            target = result[begin : begin + _BLOCK]
            for i in range(total.shape[0]):
                target[i] = narrow(total[i])

    return combine


@kernel
def _fold_bits(total: Any, other: Any, operation: int) -> None:
    if operation == AND:
        for i in range(total.shape[0]):
            total[i] &= other[i]
    elif operation == OR:
        for i in range(total.shape[0]):
            total[i] |= other[i]
    elif operation == XOR:
        for i in range(total.shape[0]):
            total[i] ^= other[i]


@kernel
def _no_bits(_total: Any, _other: Any, _operation: int) -> None:
    return


@kernel
def _divide(total: Any, number: int) -> None:
    divisor = total.dtype.type(number)
    for i in range(total.shape[0]):
        total[i] /= divisor


@kernel
def _leave(_total: Any, _number: int) -> None:
    return


@kernel
def _same(value: Any) -> Any:
    return value


def _widening(kind: str) -> Any:
    return {"float16": _from_half, "bfloat16": _from_bfloat16}.get(kind, _same)


def _narrowing(kind: str) -> Any:
    return {"float16": _to_half, "bfloat16": _to_bfloat16}.get(kind, _same)


def _emit_from_half(_typing: Any, _bits: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())

    return types.float32(types.uint16), generate


def _emit_to_half(_typing: Any, _value: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(builder.fptrunc(arguments[0], ir.HalfType()), ir.IntType(16))

    return types.uint16(types.float32), generate


def _emit_bits_as_float(_typing: Any, _bits: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.uint32), generate


def _emit_float_as_bits(_typing: Any, _value: Any) -> tuple[Any, Callable[..., Any]]:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(32))

    return types.uint32(types.float32), generate


_from_half: Any = intrinsic(_emit_from_half)
_to_half: Any = intrinsic(_emit_to_half)
_bits_as_float: Any = intrinsic(_emit_bits_as_float)
_float_as_bits: Any = intrinsic(_emit_float_as_bits)


@kernel
def _from_bfloat16(bits: int) -> float:
    value: float = _bits_as_float(np.uint32(bits) << np.uint32(16))
    return value


@kernel
def _to_bfloat16(value: float) -> Any:
    """Round to nearest even; a NaN stays one."""
    bits = _float_as_bits(value)
    upper = np.uint32(bits >> np.uint32(16))
    if value != value:
        return np.uint16(upper | np.uint32(0x40))
    odd = upper & np.uint32(1)
    rounded = np.uint32(bits + np.uint32(0x7FFF) + odd) >> np.uint32(16)
    return np.uint16(rounded)
