"""Vectors as LLVM values: the small vocabulary in which the tiles are written.

Numba's loop vectoriser neither blocks registers nor keeps accumulators in them, and prefers half
registers on AVX-512 Xeons. Explicit vector types leave it no choice: `LANES` floats are one
register.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from vectorized_ops.numba.compiling.compiler import target_has_avx512
from vectorized_ops.numba.emit import bfloat16

AVX512 = target_has_avx512()
LANES = 16 if AVX512 else 8
"""Floats in one vector register of the processor compiled for."""

_FLOAT = ir.FloatType()
_INT8, _INT32, _INT64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_VECTOR = ir.VectorType(_FLOAT, LANES)
_INDICES = ir.VectorType(_INT32, LANES)
_BYTES = ir.VectorType(_INT8, LANES)

Value = Any
"""An LLVM value; llvmlite has no types to offer here."""

tile: Callable[[Callable[..., Any]], Any] = intrinsic(prefer_literal=True)
"""Makes a function that emits code one that kernels call; numbers written there stay constants."""


class Lanes:
    """Emits vector code at the builder's position; all offsets are counted in elements."""

    width = LANES

    def __init__(self, context: Any, builder: Any, signature: Any) -> None:
        self._context = context
        self._builder = builder
        self._signature = signature
        self._fma = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            builder.module,
            ir.FunctionType(_VECTOR, [_VECTOR] * 3),
            f"llvm.fma.v{LANES}f32",
        )

    @property
    def builder(self) -> Any:
        """The LLVM builder, for what is said here in no other way."""
        return self._builder

    def pointer(self, position: int, array: Value, *indices: Value) -> Value:
        """Return the address of the flat element at the sum of `indices` of argument `position`.

        It is an array, or in the function of a tile the address of one.
        """
        kind = self._signature.args[position]
        if not isinstance(kind, types.CPointer):
            array = self._context.make_array(kind)(self._context, self._builder, array).data
        return self.at(array, *indices)

    def at(self, pointer: Value, *indices: Value) -> Value:
        """Return `pointer` moved by the sum of `indices` elements."""
        for index in indices:
            pointer = self._builder.gep(pointer, [self.integer(index)])
        return pointer

    def integer(self, value: Value) -> Value:
        """Return a 64-bit integer: `value` itself, or the constant."""
        return _INT64(value) if isinstance(value, int) else value

    def product(self, left: Value, right: Value) -> Value:
        """Return the product of two integers."""
        if isinstance(left, int) and isinstance(right, int):
            return left * right
        return self._builder.mul(self.integer(left), self.integer(right))

    def lane_numbers(self) -> Value:
        """Return 0, 1, 2 and so on, as lane integers."""
        return ir.Constant(_INDICES, list(range(LANES)))

    def quotient(self, value: Value, divisor: int) -> Value:
        """Return how often a positive number goes into an integer of at least 0."""
        return self._builder.udiv(self.integer(value), _INT64(divisor))

    def remainder(self, value: Value, divisor: int) -> Value:
        """Return what is left of an integer of at least 0 when divided by a positive number."""
        return self._builder.urem(self.integer(value), _INT64(divisor))

    def sum(self, left: Value, right: Value) -> Value:
        """Return the sum of two integers."""
        return self._builder.add(self.integer(left), self.integer(right))

    def load_integer(self, pointer: Value) -> Value:
        """Return the 64-bit integer stored at `pointer`."""
        return self._builder.load(pointer)

    def constant(self, value: float) -> Value:
        """Return a vector of equal constants."""
        return ir.Constant(_VECTOR, [float(value)] * LANES)

    def load(self, pointer: Value) -> Value:
        """Return the `LANES` floats that begin at `pointer`, of bfloat16 as float32."""
        if _is_bfloat16(pointer):
            return bfloat16.widened(self._builder, self.load_bits(pointer, LANES))
        return self._builder.load(self._builder.bitcast(pointer, _VECTOR.as_pointer()), align=4)

    def load_bits(self, pointer: Value, number: int) -> Value:
        """Return so many bfloat16 that begin at `pointer` as 16-bit integers."""
        kind = ir.VectorType(bfloat16.BITS, number)
        return self._builder.load(self._builder.bitcast(pointer, kind.as_pointer()), align=2)

    def load_rounded(self, pointer: Value) -> Value:
        """Return as bits the `LANES` bfloat16 at `pointer`, or float32 rounded to it."""
        if _is_bfloat16(pointer):
            return self.load_bits(pointer, LANES)
        return bfloat16.narrowed(self._builder, self.load(pointer))

    def store(self, value: Value, pointer: Value) -> None:
        """Write a vector to the `LANES` floats that begin at `pointer`, rounded if bfloat16."""
        self._store(value, pointer, 1)

    def broadcast(self, pointer: Value) -> Value:
        """Return a vector of `LANES` copies of the float, or the pair, at `pointer`."""
        undefined, value = ir.Constant(_VECTOR, ir.Undefined), self._builder.load(pointer)
        if _is_bfloat16(pointer):
            value = bfloat16.widened(self._builder, value)
        value = self._builder.bitcast(value, _FLOAT)
        first = self._builder.insert_element(undefined, value, _INT32(0))
        return self._builder.shuffle_vector(first, undefined, ir.Constant(_INDICES, [0] * LANES))

    def first(self, vector: Value) -> Value:
        """Return the float in the first lane."""
        return self._builder.extract_element(vector, _INT32(0))

    def fma(self, left: Value, right: Value, addend: Value) -> Value:
        """Return left * right + addend, rounded once."""
        return self._builder.call(self._fma, [left, right, addend])

    def add_pairs(self, left: Value, right: Value, addend: Value) -> Value:
        """Return addend + the sum of the products of pairs of bfloat16, one pair in each lane."""
        return bfloat16.pair_products(self._builder, left, right, addend)

    def as_pairs(self, first: Value, second: Value) -> Value:
        """Return pairs of two vectors' numbers, rounded to bfloat16."""
        return bfloat16.paired(self._builder, first, second)

    def pairs_of_ones(self) -> Value:
        """Return pairs of bfloat16 ones as a vector."""
        return self._builder.bitcast(ir.Constant(_INDICES, [bfloat16.ONES] * LANES), _VECTOR)

    def add(self, left: Value, right: Value) -> Value:
        """Return left + right."""
        return self._builder.fadd(left, right)

    def subtract(self, left: Value, right: Value) -> Value:
        """Return left - right."""
        return self._builder.fsub(left, right)

    def multiply(self, left: Value, right: Value) -> Value:
        """Return left * right."""
        return self._builder.fmul(left, right)

    def inside(self, position: Value, size: Value) -> Value:
        """Tell whether 0 <= position < size."""
        return self._builder.icmp_unsigned("<", position, self.integer(size))

    def choose(self, number: Value, cases: Sequence[int], emit: Callable[[int], None]) -> None:
        """Emit the code of all cases; `number` chooses one at run time, else it is the first."""
        after = self._builder.append_basic_block("chosen")
        blocks = [self._builder.append_basic_block("choice") for _ in cases]
        switch = self._builder.switch(number, blocks[0])
        for case, block in zip(cases, blocks, strict=True):
            if block is not blocks[0]:
                switch.add_case(ir.Constant(number.type, case), block)
            self._builder.position_at_end(block)
            emit(case)
            self._builder.branch(after)
        self._builder.position_at_end(after)

    def zero_unless_positive(self, test: Value, value: Value) -> Value:
        """Return zero in the lanes in which `test` is <= 0, `value` in the others (also NaN)."""
        zero = self.constant(0.0)
        return self._builder.select(self._builder.fcmp_ordered("<=", test, zero), zero, value)

    def prefetch(self, pointer: Value, level: int = 1) -> None:
        """Ask the cache of this level for the line at `pointer`, which may lie anywhere."""
        function = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            self._builder.module,
            ir.FunctionType(ir.VoidType(), [_INT8.as_pointer(), _INT32, _INT32, _INT32]),
            "llvm.prefetch.p0",
        )
        address = self._builder.bitcast(pointer, _INT8.as_pointer())
        for_reading, nearness, data = _INT32(0), _INT32(4 - level), _INT32(1)
        self._builder.call(function, [address, for_reading, nearness, data])

    def argmax(self, values: Sequence[Value]) -> tuple[Value, Value]:
        """Return per lane the largest value and which it was: a NaN, else the first of equals."""
        best, which = values[0], ir.Constant(_INDICES, [0] * LANES)
        for number, value in enumerate(values[1:], start=1):
            larger = self._builder.or_(
                self._builder.fcmp_ordered(">", value, best),
                self._builder.fcmp_unordered("uno", value, value),
            )
            best = self._builder.select(larger, value, best)
            which = self._builder.select(larger, ir.Constant(_INDICES, [number] * LANES), which)
        return best, which

    def store_bytes(self, which: Value, pointer: Value) -> None:
        """Write small lane integers as bytes."""
        narrow = self._builder.trunc(which, _BYTES)
        self._builder.store(narrow, self._builder.bitcast(pointer, _BYTES.as_pointer()), align=1)

    def load_bytes(self, pointer: Value) -> Value:
        """Return `LANES` bytes as lane integers."""
        narrow = self._builder.load(self._builder.bitcast(pointer, _BYTES.as_pointer()), align=1)
        return self._builder.zext(narrow, _INDICES)

    def where_equal(self, which: Value, number: int, value: Value) -> Value:
        """Return `value` in the lanes in which `which` is `number`, zero in the others."""
        same = self._builder.icmp_signed("==", which, ir.Constant(_INDICES, [number] * LANES))
        return self._builder.select(same, value, self.constant(0.0))

    def shuffle(self, left: Value, right: Value, order: Sequence[int]) -> Value:
        """Return the lanes `order` of the concatenation of two vectors (any number of lanes)."""
        mask = ir.Constant(ir.VectorType(_INT32, len(order)), list(order))
        return self._builder.shuffle_vector(left, right, mask)

    def store_part(self, value: Value, pointer: Value) -> None:
        """Write a vector of any number of floats to `pointer`."""
        self._builder.store(value, self._builder.bitcast(pointer, value.type.as_pointer()), align=4)

    def store_first(self, value: Value, pointer: Value, number: Value) -> None:
        """Write the first `number` floats of a vector, which are 1 to LANES."""
        store = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            self._builder.module,
            ir.FunctionType(
                ir.VoidType(),
                [_VECTOR, _VECTOR.as_pointer(), _INT32, ir.VectorType(ir.IntType(1), LANES)],
            ),
            f"llvm.masked.store.v{LANES}f32.p0",
        )
        mask = self._builder.icmp_signed("<", self.lane_numbers(), self.same(number))
        target = self._builder.bitcast(pointer, _VECTOR.as_pointer())
        self._builder.call(store, [value, target, _INT32(4), mask])

    def load_part(self, pointer: Value, number: int) -> Value:
        """Return a vector of the `number` floats that begin at `pointer`."""
        kind = ir.VectorType(_FLOAT, number)
        return self._builder.load(self._builder.bitcast(pointer, kind.as_pointer()), align=4)

    def copies(self, scalar: Value) -> Value:
        """Return a vector of `LANES` copies of a float."""
        undefined = ir.Constant(_VECTOR, ir.Undefined)
        first = self._builder.insert_element(undefined, scalar, _INT32(0))
        return self._builder.shuffle_vector(first, undefined, ir.Constant(_INDICES, [0] * LANES))

    def same(self, number: Value) -> Value:
        """Return `LANES` copies of a 64-bit integer as lane integers."""
        undefined, narrow = ir.Constant(_INDICES, ir.Undefined), self._builder.trunc(number, _INT32)
        first = self._builder.insert_element(undefined, narrow, _INT32(0))
        return self._builder.shuffle_vector(first, undefined, ir.Constant(_INDICES, [0] * LANES))

    def divide(self, left: Value, right: Value) -> Value:
        """Return left / right."""
        return self._builder.fdiv(left, right)

    def square_root(self, value: Value) -> Value:
        """Return the square root of each lane."""
        name = f"llvm.sqrt.v{LANES}f32"
        kind = ir.FunctionType(_VECTOR, [_VECTOR])
        root = cgutils.get_or_insert_function(self._builder.module, kind, name)  # type: ignore[no-untyped-call]
        return self._builder.call(root, [value])

    def compare(self, left: Value, order: str, right: Value) -> Value:
        """Return per lane whether left < right (or another order); false where one is a NaN."""
        return self._builder.fcmp_ordered(order, left, right)

    def select(self, condition: Value, value: Value, other: Value) -> Value:
        """Return `value` in the lanes in which `condition` holds, `other` elsewhere."""
        return self._builder.select(condition, value, other)

    def larger(self, best: Value, which: Value, value: Value, number: Value) -> tuple[Value, Value]:
        """Return `value` and `number` where it is above `best` or a NaN, else `best`, `which`."""
        above = self._builder.or_(
            self._builder.fcmp_ordered(">", value, best),
            self._builder.fcmp_unordered("uno", value, value),
        )
        select = self._builder.select
        return select(above, value, best), select(above, number, which)

    def where_same(self, which: Value, number: Value, value: Value) -> Value:
        """Return `value` where the lane integers are equal, zero elsewhere."""
        same = self._builder.icmp_signed("==", which, number)
        return self._builder.select(same, value, self.constant(0.0))

    def keep(self, value: Value, bits: Value) -> Value:
        """Return `value` with those bits that are set in the lane integers at pointer `bits`."""
        kept = self._builder.load(self._builder.bitcast(bits, _INDICES.as_pointer()), align=4)
        whole = self._builder.bitcast(value, _INDICES)
        return self._builder.bitcast(self._builder.and_(whole, kept), _VECTOR)

    def store_streamed(self, value: Value, pointer: Value, streamed: Value) -> None:
        """Write a vector; past the caches if the flag `streamed` is set (at whole vectors only)."""
        with self._builder.if_else(streamed) as (past, through):
            with past:
                self.store_past(value, pointer)
            with through:
                self.store(value, pointer)

    def store_past(self, value: Value, pointer: Value) -> None:
        """Write a vector past the caches, at whole vectors only; see `emit.non_temporal`."""
        store = self._store(value, pointer, LANES)
        store.set_metadata("nontemporal", self._builder.module.add_metadata([_INT32(1)]))

    def _store(self, value: Value, pointer: Value, aligned: int) -> Value:
        """Write a vector to a pointer that is a multiple of so many elements."""
        size = 4
        if _is_bfloat16(pointer):
            value, size = bfloat16.narrowed(self._builder, value), 2
        target = self._builder.bitcast(pointer, value.type.as_pointer())
        return self._builder.store(value, target, align=aligned * size)

    def loop(
        self,
        steps: Value,
        start: Sequence[Value],
        body: Callable[[Value, list[Value]], list[Value]],
        maybe_none: bool = False,
    ) -> list[Value]:
        """Run `body(step, values) -> values` `steps` times with the values in registers.

        `steps` is at least 1, or with `maybe_none` at least 0.
        """
        before = self._builder.block
        inside = self._builder.append_basic_block("tile.step")
        after = self._builder.append_basic_block("tile.done")
        if maybe_none:
            some = self._builder.icmp_signed(">", self.integer(steps), _INT64(0))
            self._builder.cbranch(some, inside, after)
        else:
            self._builder.branch(inside)
        self._builder.position_at_end(inside)
        step = self._builder.phi(_INT64)
        step.add_incoming(_INT64(0), before)
        values = [self._builder.phi(value.type) for value in start]
        results = body(step, list(values))
        last = self._builder.block
        following = self._builder.add(step, _INT64(1))
        step.add_incoming(following, last)
        for phi, first, result in zip(values, start, results, strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(result, last)
        more = self._builder.icmp_signed("<", following, self.integer(steps))
        self._builder.cbranch(more, inside, after)
        self._builder.position_at_end(after)
        if not maybe_none:
            return results
        joined = [self._builder.phi(value.type) for value in start]
        for phi, first, result in zip(joined, start, results, strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(result, last)
        return joined


def _is_bfloat16(pointer: Value) -> bool:
    return bool(pointer.type.pointee == bfloat16.BITS)
