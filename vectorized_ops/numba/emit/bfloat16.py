# ruff: noqa: ARG001 (what an intrinsic is given here are types: code is made from `args`)
"""bfloat16 in kernels: rounding, products of pairs and single elements, by AVX512_BF16 or emulated.

An array of bfloat16 has NumPy's uint16: the upper halves of float32 numbers. Vectors are float32
from their load to their store; only products of pairs take bfloat16 operands.

The instructions round to nearest even, take denormal numbers for zeros and write zeros for them,
and set the quiet bit of a NaN; products of pairs are summed by two fused multiply-adds, the second
elements first (Intel, "bfloat16 - Hardware Numerics Definition", 338302). On other processors code
in float32 gives the same bits, but for sums less than 2^-126 by 2^-150 at most and by more than
2^-151: they become 2^-126, by the instructions zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic as numba_intrinsic

from vectorized_ops.layout import STORED, AnyArray
from vectorized_ops.numba.compiling.compiler import target_has_avx512, target_has_bfloat16

if TYPE_CHECKING:
    from vectorized_ops.numba.emit.lanes import Lanes

intrinsic: Callable[[Callable[..., Any]], Any] = numba_intrinsic

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
    total = flushed(builder, addend)
    for number in (1, 0):
        first, second = (elements_of(builder, each, number) for each in (left, right))
        total = flushed_fma(builder, first, second, total)
    return total


def elements_of(builder: Any, pairs: Value, number: int) -> Value:
    """Return the first (0) or second (1) elements of a vector of pairs, denormal ones as zeros."""
    whole = ir.VectorType(_INT32, pairs.type.count)
    bits = builder.bitcast(pairs, whole)
    if number:
        bits = builder.and_(bits, _same(whole, 0xFFFF0000))
    else:
        bits = builder.shl(bits, _same(whole, 16))
    return flushed(builder, builder.bitcast(bits, pairs.type))


def flushed_fma(builder: Any, left: Value, right: Value, addend: Value) -> Value:
    """Return left * right + addend of vectors, rounded once, with zeros for denormal results."""
    kind = addend.type
    fma = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
        builder.module, ir.FunctionType(kind, [kind] * 3), f"llvm.fma.v{kind.count}f32"
    )
    return flushed(builder, builder.call(fma, [left, right, addend]))


def _rounded(builder: Any, values: Value, whole: Any, narrow: Any) -> Value:
    bits = builder.bitcast(flushed(builder, values), whole)
    upper = builder.lshr(bits, _same(whole, 16))
    odd = builder.and_(upper, _same(whole, 1))
    nearest = builder.add(builder.add(bits, _same(whole, 0x7FFF)), odd)
    quiet = builder.or_(upper, _same(whole, 0x40))
    is_nan = builder.fcmp_unordered("uno", values, values)
    return builder.trunc(
        builder.select(is_nan, quiet, builder.lshr(nearest, _same(whole, 16))), narrow
    )


def flushed(builder: Any, values: Value) -> Value:
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


def sum_pairs(
    lanes: Lanes,
    pairs: Value,
    sums: list[Value],
    width: int,
    inputs: Value,
    row: Value,
    weight: Callable[[Value, int], Value],
    ahead: Callable[[Value], None],
) -> list[Value]:
    """Emit the loop that adds weights x inputs to `sums`, rows of `width` vectors.

    Two rows of inputs in bfloat16, which lie `row` elements apart, make a pair. `weight(t, i)` is
    the address of the weights of pair t for row i, a pair in the bits of a float32; `ahead(r)`
    fetches what is wanted after row r. Sums stay in the order of `unpacked`, see `in_order`.
    """
    height = len(sums) // width

    def body(pair: Value, sums: list[Value]) -> list[Value]:
        rows = [lanes.sum(lanes.product(pair, 2), number) for number in (0, 1)]
        starts = [lanes.at(inputs, lanes.product(each, row)) for each in rows]
        both = [lanes.load_bits(start, width * lanes.width) for start in starts]
        vectors, results = unpacked(lanes, both[0], both[1], width), []
        for each in rows:
            ahead(each)
        for i in range(height):
            factor = lanes.broadcast(weight(pair, i))
            for j in range(width):
                results.append(lanes.add_pairs(factor, vectors[j], sums[i * width + j]))
        return results

    return lanes.loop(pairs, sums, body)


def unpacked(lanes: Lanes, first: Value, second: Value, width: int) -> list[Value]:
    """Return vectors of pairs of neighbouring rows, as float32.

    One vector has the pairs in the order of the images. Of two vectors each takes half of the
    images of each 128 bits, as one instruction unpacks them.
    """
    size, kind = width * lanes.width, lanes.constant(0.0).type
    if width == 1:
        orders = [[lane + half * size for lane in range(lanes.width) for half in (0, 1)]]
    else:
        orders = [
            [
                begin + lane + half * size
                for begin in range(part, size, 8)
                for lane in range(4)
                for half in (0, 1)
            ]
            for part in (0, 4)
        ]
    return [lanes.builder.bitcast(lanes.shuffle(first, second, order), kind) for order in orders]


def in_order(lanes: Lanes, results: list[Value], width: int) -> list[Value]:
    """Return rows of so many vectors of `unpacked` in the order of the images."""
    if width == 1:
        return results
    order = [
        half * lanes.width + begin + lane
        for begin in range(0, lanes.width, 4)
        for half in (0, 1)
        for lane in range(4)
    ]
    return [
        lanes.shuffle(results[i], results[i + 1], part)
        for i in range(0, len(results), 2)
        for part in (order[: lanes.width], order[lanes.width :])
    ]


@intrinsic
def element(typingctx: Any, array: Any, index: Any) -> Any:
    """The element of a flat array as float32; that of uint32, a pair of bfloat16, as its bits."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        value = builder.load(builder.gep(data, [args[1]]))
        if signature.args[0].dtype == types.uint16:
            return widened(builder, value)
        return builder.bitcast(value, _FLOAT)

    return types.float32(array, types.int64), generate


@intrinsic
def store_element(typingctx: Any, array: Any, index: Any, value: Any) -> Any:
    """Write a float32 to the element of a flat array, rounded if that is

    To one of uint32 the bits are written.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data, value = context.make_array(signature.args[0])(context, builder, args[0]).data, args[2]
        if signature.args[0].dtype == types.uint16:
            value = narrowed(builder, value)
        place = builder.gep(data, [args[1]])
        builder.store(builder.bitcast(value, place.type.pointee), place)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.float32), generate


@intrinsic
def as_pair(typingctx: Any, first: Any, second: Any) -> Any:
    """A float32 whose bits are two float32 rounded to bfloat16, the first in the lower half."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return paired(builder, *args)

    return types.float32(types.float32, types.float32), generate


@intrinsic
def sum_of_pair(typingctx: Any, pair: Any) -> Any:
    """The sum of both bfloat16 in the bits of a float32, as float32."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = builder.bitcast(args[0], _INT32)
        high = builder.and_(bits, _INT32(0xFFFF0000))
        halves = [builder.bitcast(each, _FLOAT) for each in (builder.shl(bits, _INT32(16)), high)]
        return builder.fadd(*halves)

    return types.float32(types.float32), generate
