"""Products of tiles of bfloat16: by AMX's instructions, or in float32 to the same bits.

TDPBF16PS adds to sums C the product of A, rows of pairs, and B, pairs of rows (Intel, "64 and IA-32
Architectures Software Developer's Manual", volume 2). For each element of C the first elements of
the pairs are summed by fused multiply-adds from zero on, and so are the second ones; then C is
added to what both come to. It rounds to nearest even, and takes and writes zeros for denormal
numbers. Emulated sums differ in the one case that `emit.bfloat16` names.

A tile has up to 16 rows of 64 bytes, and there are 8 of them. Shapes are constants: LLVM writes the
configuration once in each function. It copies a zero tile of two uses through memory, so each sum
has a zero of its own.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba.core import cgutils

from vectorized_ops.numba.emit.bfloat16 import elements_of, flushed, flushed_fma
from vectorized_ops.numba.emit.flow import repeat
from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value
from vectorized_ops.shapes import FLOAT_BYTES

TILE: Final = 16
"""Most rows of a tile, and pairs in a row."""

_INT16, _INT64 = ir.IntType(16), ir.IntType(64)
_ADDRESS = ir.IntType(8).as_pointer()


class _TileType(ir.Type):  # type: ignore[misc]
    """LLVM's `x86_amx`, which llvmlite lacks."""

    def _to_string(self) -> str:
        return "x86_amx"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _TileType)

    def __hash__(self) -> int:
        return hash(_TileType)


_TILE = _TileType()

_SCHEDULED: Final = '"tune-cpu"="sapphirerapids"'
"""LLVM schedules again behind register allocation for other processors.

It then renames tiles, to some that the configuration does not have.
"""


class Tiles:
    """Emits products of tiles, `depth` pairs deep, at the builder's position.

    Pointers are to float32, whose bits are pairs in A and B; strides, from row to row, are counted
    in floats. Sums are values that `multiply` uses up: what it returns stands for them. LANES
    columns are those of a vector, for `native` code 16.
    """

    def __init__(self, lanes: Lanes, native: bool, depth: int = TILE) -> None:
        self._lanes, self._builder = lanes, lanes.builder
        self._native, self._depth = native, depth
        if native:
            # llvmlite knows no attributes of this form.
            set.add(self._builder.function.attributes, _SCHEDULED)

    def zero(self, rows: int = TILE) -> Value:
        """Return `rows` x LANES sums of zero."""
        if self._native:
            return self._call(_TILE, "tilezero.internal", _shape(rows, LANES))
        sums = self._memory(rows)
        repeat(self._lanes, rows, lambda row: self._store_row(sums, row, self._lanes.constant(0.0)))
        return sums

    def sums(self, pointer: Value, stride: int, rows: int = TILE) -> Value:
        """Return `rows` x LANES sums that were stored."""
        if self._native:
            return self._load(pointer, stride, rows, LANES)
        sums = self._memory(rows)

        def copy(row: Value) -> None:
            source = self._lanes.at(pointer, self._lanes.product(row, stride))
            self._store_row(sums, row, self._lanes.load(source))

        repeat(self._lanes, rows, copy)
        return sums

    def left(self, pointer: Value, stride: int, rows: int = TILE) -> Value:
        """Return A, `rows` x `depth` pairs, which must stay in memory until it is multiplied."""
        if self._native:
            return self._load(pointer, stride, rows, self._depth)
        return pointer, stride

    def right(self, pointer: Value, stride: int) -> Value:
        """Return B, `depth` x LANES pairs, which must stay in memory until it is multiplied."""
        if self._native:
            return self._load(pointer, stride, self._depth, LANES)
        return pointer, stride

    def multiply(self, sums: Value, left: Value, right: Value, rows: int = TILE) -> Value:
        """Return sums + left * right."""
        if self._native:
            deep = _INT16(self._depth * FLOAT_BYTES)
            sizes = *_shape(rows, LANES), deep
            return self._call(_TILE, "tdpbf16ps.internal", (*sizes, sums, left, right))
        lanes, (at_left, left_row), (at_right, right_row) = self._lanes, left, right

        def add_row(row: Value) -> None:
            start = lanes.at(at_left, lanes.product(row, left_row))

            def add_pair(pair: Value, totals: list[Value]) -> list[Value]:
                factor = lanes.broadcast(lanes.at(start, pair))
                vector = lanes.load(lanes.at(at_right, lanes.product(pair, right_row)))
                return [
                    flushed_fma(self._builder, *self._elements(factor, vector, i), total)
                    for i, total in enumerate(totals)
                ]

            both = lanes.loop(self._depth, [lanes.constant(0.0)] * 2, add_pair)
            place = lanes.at(sums, lanes.product(row, LANES))
            before, more = (
                flushed(self._builder, each) for each in (lanes.load(place), lanes.add(*both))
            )
            lanes.store(flushed(self._builder, lanes.add(before, more)), place)

        repeat(lanes, rows, add_row)
        return sums

    def store(self, sums: Value, pointer: Value, stride: int, rows: int = TILE) -> None:
        """Write sums."""
        lanes = self._lanes
        if self._native:
            place = self._place(pointer, stride)
            self._call(ir.VoidType(), "tilestored64.internal", (*_shape(rows, LANES), *place, sums))
            return

        def copy(row: Value) -> None:
            value = lanes.load(lanes.at(sums, lanes.product(row, LANES)))
            lanes.store(value, lanes.at(pointer, lanes.product(row, stride)))

        repeat(lanes, rows, copy)

    def _elements(self, factor: Value, vector: Value, number: int) -> tuple[Value, Value]:
        left, right = (elements_of(self._builder, each, number) for each in (factor, vector))
        return left, right

    def _memory(self, rows: int) -> Value:
        """Memory of sums on the stack of the function."""
        kind = self._lanes.constant(0.0).type
        place = cgutils.alloca_once(self._builder, kind, size=_INT64(rows))  # type: ignore[no-untyped-call]
        return self._builder.bitcast(place, ir.FloatType().as_pointer())

    def _store_row(self, sums: Value, row: Value, value: Value) -> None:
        self._lanes.store(value, self._lanes.at(sums, self._lanes.product(row, LANES)))

    def _load(self, pointer: Value, stride: int, rows: int, columns: int) -> Value:
        place = self._place(pointer, stride)
        return self._call(_TILE, "tileloadd64.internal", (*_shape(rows, columns), *place))

    def _place(self, pointer: Value, stride: int) -> tuple[Value, Value]:
        return self._builder.bitcast(pointer, _ADDRESS), _INT64(stride * FLOAT_BYTES)

    def _call(self, kind: Any, name: str, given: tuple[Value, ...]) -> Value:
        function = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            self._builder.module,
            ir.FunctionType(kind, [each.type for each in given]),
            f"llvm.x86.{name}",
        )
        return self._builder.call(function, given)


def _shape(rows: int, columns: int) -> tuple[Value, Value]:
    return _INT16(rows), _INT16(columns * FLOAT_BYTES)
