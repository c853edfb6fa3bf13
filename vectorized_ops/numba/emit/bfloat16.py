"""bfloat16 in registers: loads, stores and products of pairs, by AVX512_BF16 or emulated.

An array of bfloat16 has NumPy's uint16: the upper halves of float32 numbers. Vectors are float32
from their load to their store; only products of pairs take bfloat16 operands.

The instructions round to nearest even, take denormal numbers for zeros and write zeros for them,
and set the quiet bit of a NaN; products of pairs are summed by two fused multiply-adds, the second
elements first (Intel, "bfloat16 - Hardware Numerics Definition", 338302). On other processors code
in float32 gives the same bits, but for sums less than 2^-126 by 2^-150 at most and by more than
2^-151: they become 2^-126, by the instructions zero.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils

from vectorized_ops.bfloat16 import STORED
from vectorized_ops.layout import AnyArray
from vectorized_ops.numba.compiling.compiler import target_has_avx512, target_has_bfloat16

IS_NATIVE = target_has_bfloat16() and target_has_avx512()
"""Whether the processor compiled for has the instructions."""

BITS = ir.IntType(16)
"""LLVM's type of an element of such an array."""

ONES = 0x3F803F80
"""A pair of ones."""

Value = Any

_INT32, _FLOAT = ir.IntType(32), ir.FloatType()


class _BFloat16(ir.types._BaseFloatType):  # type: ignore[misc]
    """LLVM's `bfloat`, which llvmlite lacks."""

    null = "0.0"
    intrinsic_name = "bf16"

    def __str__(self) -> str:
        return "bfloat"

    def format_constant(self, _value: object) -> str:
        return "zeroinitializer"


_BFloat16._create_instance()
_BFLOAT16 = _BFloat16()


def bfloat16_among(**arrays: AnyArray) -> tuple[str, ...]:
    """Return the names of those arrays that are of bfloat16."""
    return tuple(name for name, array in arrays.items() if array.dtype == STORED)


def widened(builder: Any, bits: Value) -> Value:
    """Return the float32 numbers of 16-bit integers, a vector or a single one."""
    narrow, whole, real = bits.type, _INT32, _FLOAT
    if isinstance(narrow, ir.VectorType):
        whole, real = ir.VectorType(_INT32, narrow.count), ir.VectorType(_FLOAT, narrow.count)
    shifted = builder.shl(builder.zext(bits, whole), _same(whole, 16))
    return builder.bitcast(shifted, real)


def narrowed(builder: Any, values: Value) -> Value:
    """Return float32 numbers, a vector of 8 or 16 or a single one, rounded to 16-bit integers."""
    if not isinstance(values.type, ir.VectorType):
        return _rounded(builder, values, _INT32, BITS)
    count = values.type.count
    if IS_NATIVE and count == 16:
        kind = ir.VectorType(_BFLOAT16, count)
        rounding = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            builder.module,
            ir.FunctionType(kind, [values.type]),
            "llvm.x86.avx512bf16.cvtneps2bf16.512",
        )
        return builder.bitcast(builder.call(rounding, [values]), ir.VectorType(BITS, count))
    return _rounded(builder, values, ir.VectorType(_INT32, count), ir.VectorType(BITS, count))


def paired(builder: Any, first: Value, second: Value) -> Value:
    """Return pairs, in the bits of float32, of vectors of float32 or of single numbers."""
    kind, whole = first.type, _INT32
    if isinstance(kind, ir.VectorType):
        whole = ir.VectorType(_INT32, kind.count)
    low, high = (builder.zext(narrowed(builder, each), whole) for each in (first, second))
    return builder.bitcast(builder.or_(low, builder.shl(high, _same(whole, 16))), kind)


def pair_products(builder: Any, left: Value, right: Value, addend: Value) -> Value:
    """Return addend + the products of pairs; pairs are 32 bits of `left` and `right` each.

    All are vectors of 8 or 16 float32 numbers, whose bits are pairs in the first two: the lower
    half of the bits is a pair's first element.
    """
    count = addend.type.count
    if IS_NATIVE and count == 16:
        pairs = ir.VectorType(_BFLOAT16, 2 * count)
        dot = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            builder.module,
            ir.FunctionType(addend.type, [addend.type, pairs, pairs]),
            "llvm.x86.avx512bf16.dpbf16ps.512",
        )
        operands = [builder.bitcast(each, pairs) for each in (left, right)]
        return builder.call(dot, [addend, *operands])
    whole = ir.VectorType(_INT32, count)
    fma = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
        builder.module, ir.FunctionType(addend.type, [addend.type] * 3), f"llvm.fma.v{count}f32"
    )
    bits = [builder.bitcast(each, whole) for each in (left, right)]
    total = _flushed(builder, addend)
    for shifted in (False, True):
        elements = []
        for each in bits:
            if shifted:
                each = builder.shl(each, _same(whole, 16))
            else:
                each = builder.and_(each, _same(whole, 0xFFFF0000))
            elements.append(_flushed(builder, builder.bitcast(each, addend.type)))
        total = _flushed(builder, builder.call(fma, [*elements, total]))
    return total


def _rounded(builder: Any, values: Value, whole: Any, narrow: Any) -> Value:
    bits = builder.bitcast(_flushed(builder, values), whole)
    upper = builder.lshr(bits, _same(whole, 16))
    odd = builder.and_(upper, _same(whole, 1))
    nearest = builder.add(builder.add(bits, _same(whole, 0x7FFF)), odd)
    quiet = builder.or_(upper, _same(whole, 0x40))
    is_nan = builder.fcmp_unordered("uno", values, values)
    return builder.trunc(
        builder.select(is_nan, quiet, builder.lshr(nearest, _same(whole, 16))), narrow
    )


def _flushed(builder: Any, values: Value) -> Value:
    """Return float32 numbers with zeros of their sign for denormal ones."""
    real, whole = values.type, _INT32
    if isinstance(real, ir.VectorType):
        whole = ir.VectorType(_INT32, real.count)
    bits = builder.bitcast(values, whole)
    exponent = builder.and_(bits, _same(whole, 0x7F800000))
    zero = builder.and_(bits, _same(whole, 0x80000000))
    is_small = builder.icmp_unsigned("==", exponent, _same(whole, 0))
    return builder.bitcast(builder.select(is_small, zero, bits), real)


def _same(kind: Any, number: int) -> Value:
    return ir.Constant(kind, [number] * kind.count if isinstance(kind, ir.VectorType) else number)
