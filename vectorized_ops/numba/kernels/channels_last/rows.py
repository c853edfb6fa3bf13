# ruff: noqa: ARG001 (what an intrinsic is given here are types: code is made from `args`)
"""One pass over the pixels of channels_last arrays: batch normalisation and others consist of them.

A pixel is a row of C channels, the lanes of a vector are channels. Rows of an array lie `distance`
elements apart, so some channels of a wider array are an array too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba import types

from vectorized_ops.numba.emit.flow import fold, repeat
from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value, tile
from vectorized_ops.numba.kernels.arithmetic.sums import Term, accumulate
from vectorized_ops.numba.kernels.channels_last.lanes import (
    at_type,
    element_of,
    first_lanes,
    load_lanes,
    smaller,
    store_lanes,
)
from vectorized_ops.numba.kernels.channels_last.team import (
    THREADS,
    address,
    argument,
    emit_in_team,
    flag,
    number,
    part,
)

(
    _THREADS, ROWS, CHANNELS, PAST, SCALAR, TABLE, SUMS, TOTALS, SUMMANDS, STREAMS,
) = range(THREADS, THREADS + 10)  # fmt: skip
"""Places in the arguments of a pass, 64-bit integers.

From STREAMS on: pairs (address, distance) of the arrays written, of those read, and of `summands`
arrays whose sum is read as one more. SCALAR holds the bits of a double; PAST tells whether to write
past the caches. TABLE, SUMS and TOTALS are addresses: of constants, and of what each thread sums
up, see `pass_over_rows`.
"""

_NEAR = 4
"""Rows taken together where sums would be fetched too often; one stream is faster than several."""

_RESIDENT_CHANNELS = 1024
"""Channels whose sums the first-level cache keeps while a row passes through it."""

_CHUNK = 64
"""Rows summed up in float32 before the sums go into doubles."""

_DOUBLE = ir.DoubleType()
_DOUBLES = ir.VectorType(_DOUBLE, LANES)

Results = tuple[Sequence[Value], Sequence[Term]]
Compute = Callable[[Lanes, list[Value], list[Value], Value], Results]
"""From (lanes, what was read, constants, scalar) to what is written and what is summed up."""


def padded(channels: int) -> int:
    """Return the channels of a row of constants or sums: whole vectors of either width."""
    return -(-channels // 16) * 16


def pass_over_rows(
    compute: Compute,
    writes: int,
    reads: int,
    constants: Sequence[int] = (),
    sums: int = 0,
    summing: bool = False,
) -> Any:
    """Return what makes a pass from its arguments (int64) and a dtype: for kernels to call.

    The dtype is that of all arrays written and read, NumPy's uint16 for bfloat16.

    `constants` are the rows of the table (K, C') that `compute` is given, C' as from `padded`. Of
    each of the `sums`, thread t has a row of sums (T, S, C') float32 to itself, and a row of totals
    (T, S, C') float64, in which the result stands at the end. With `summing`, the sum of the
    summands is the last that is read.
    """
    kind = _Kind(compute, writes, reads, tuple(constants), sums, summing)

    @tile
    def rows_pass(typingctx: Any, arguments: Any, element: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            given = Lanes(context, builder, signature).pointer(0, args[0])

            def work(lanes: Lanes, given: Value, share: Value, shares: Value) -> None:
                _Rows(lanes, given, share, kind, element_of(signature)).emit(share, shares)

            emit_in_team(context, builder, signature, given, work)
            return context.get_dummy_value()

        return types.void(arguments, element), generate

    return rows_pass


@dataclass(frozen=True)
class _Kind:
    """See `pass_over_rows`."""

    compute: Compute
    writes: int
    reads: int
    constants: tuple[int, ...]
    sums: int
    summing: bool


class _Rows:
    """Emits the share of one thread."""

    def __init__(self, lanes: Lanes, given: Value, share: Value, kind: _Kind, element: Any) -> None:
        self._lanes, self._given, self._kind, self._element = lanes, given, kind, element
        self._rows, self._channels = (argument(lanes, given, place) for place in (ROWS, CHANNELS))
        whole = lanes.quotient(lanes.sum(self._channels, 15), 16)
        self._padded = lanes.product(whole, 16)
        self._past, self._scalar = flag(lanes, given, PAST), number(lanes, given, SCALAR)
        self._table = address(lanes, given, TABLE)
        own = lanes.product(lanes.product(share, kind.sums), self._padded)
        self._sums = lanes.at(address(lanes, given, SUMS), own)
        self._totals = lanes.at(address(lanes, given, TOTALS, _DOUBLE), own)
        streams = [self._stream(STREAMS + 2 * i) for i in range(kind.writes + kind.reads)]
        self._written, self._read = streams[: kind.writes], streams[kind.writes :]

    def emit(self, share: Value, shares: Value) -> None:
        """Emit the loops over the rows."""
        lanes = self._lanes
        first, last = (
            part(lanes, self._rows, bound, shares) for bound in (share, lanes.sum(share, 1))
        )
        if not self._kind.sums:
            fold(lanes, first, last, [], lambda row, _none: self._near_rows(row, 1))
            return
        self._each_sum(self._clear)
        length = lanes.builder.sub(last, first)

        def chunk(index: Value) -> None:
            begin = lanes.sum(first, lanes.product(index, _CHUNK))
            self._some_rows(begin, smaller(lanes, lanes.sum(begin, _CHUNK), last))
            self._each_sum(self._flush)

        repeat(lanes, lanes.quotient(lanes.sum(length, _CHUNK - 1), _CHUNK), chunk)

    def _stream(self, place: Value) -> tuple[Value, Value]:
        """Return address and distance of an array."""
        lanes, given = self._lanes, self._given
        start = address(lanes, given, place, self._element)
        return start, argument(lanes, given, lanes.sum(place, 1))

    def _some_rows(self, first: Value, last: Value) -> None:
        """Emit the loop over neighbouring rows, several of them together if they are wide."""
        lanes, builder = self._lanes, self._lanes.builder
        wide = builder.icmp_signed(">", self._channels, lanes.integer(_RESIDENT_CHANNELS))
        groups = lanes.quotient(builder.sub(last, first), _NEAR)
        together = lanes.product(builder.select(wide, groups, lanes.integer(0)), _NEAR)

        def group(index: Value) -> None:
            self._near_rows(lanes.sum(first, lanes.product(index, _NEAR)), _NEAR)

        repeat(lanes, lanes.quotient(together, _NEAR), group)
        begin = lanes.sum(first, together)
        fold(lanes, begin, last, [], lambda row, _none: self._near_rows(row, 1))

    def _near_rows(self, row: Value, count: int) -> list[Value]:
        lanes = self._lanes
        rows = [lanes.sum(row, i) for i in range(count)]
        vectors = lanes.quotient(self._channels, LANES)
        repeat(lanes, vectors, lambda i: self._vector(rows, lanes.product(i, LANES), None))
        rest = lanes.remainder(self._channels, LANES)
        with lanes.builder.if_then(lanes.builder.icmp_signed("!=", rest, lanes.integer(0))):
            self._vector(rows, lanes.product(vectors, LANES), first_lanes(lanes, rest))
        return []

    def _vector(self, rows: list[Value], offset: Value, mask: Value | None) -> None:
        """Emit what happens to a vector of channels of the rows."""
        lanes, kind = self._lanes, self._kind
        constants = [lanes.load(self._of_row(self._table, k, offset)) for k in kind.constants]
        places = [self._of_row(self._sums, k, offset) for k in range(kind.sums)]
        sums = [lanes.load(place) for place in places]
        summed = self._summed(rows, offset, mask)
        for row, last in zip(rows, summed, strict=True):
            read = [self._load(stream, row, offset, mask) for stream in self._read]
            results, terms = kind.compute(lanes, read + last, constants, self._scalar)
            for stream, result in zip(self._written, results, strict=True):
                place = self._place(stream, row, offset)
                store_lanes(lanes, result, place, mask, self._past)
            sums = accumulate(lanes, sums, terms)
        for place, total in zip(places, sums, strict=True):
            lanes.store(total, place)

    def _of_row(self, table: Value, row: int, offset: Value) -> Value:
        """Return an address in a table of rows of padded channels."""
        return self._lanes.at(table, self._lanes.product(self._padded, row), offset)

    def _place(self, stream: tuple[Value, Value], row: Value, offset: Value) -> Value:
        start, distance = stream
        return self._lanes.at(start, self._lanes.product(row, distance), offset)

    def _load(
        self, stream: tuple[Value, Value], row: Value, offset: Value, mask: Value | None
    ) -> Value:
        return load_lanes(self._lanes, self._place(stream, row, offset), mask)

    def _summed(self, rows: list[Value], offset: Value, mask: Value | None) -> list[list[Value]]:
        """Return per row the sum of the summands, in a list; nothing in it without any."""
        lanes, kind = self._lanes, self._kind
        if not kind.summing:
            return [[] for _ in rows]
        first = STREAMS + 2 * (kind.writes + kind.reads)

        def loaded(place: Value) -> list[Value]:
            stream = self._stream(place)
            return [self._load(stream, row, offset, mask) for row in rows]

        def step(index: Value, totals: list[Value]) -> list[Value]:
            further = loaded(lanes.sum(lanes.product(index, 2), first))
            return [lanes.add(total, value) for total, value in zip(totals, further, strict=True)]

        count = argument(lanes, self._given, SUMMANDS)
        totals = fold(lanes, 1, count, loaded(lanes.integer(first)), step)
        return [[total] for total in totals]

    def _each_sum(self, body: Callable[[Value], None]) -> None:
        """Emit `body` for every vector of the sums; one thread's lie behind each other."""
        lanes = self._lanes
        vectors = lanes.quotient(lanes.product(self._padded, self._kind.sums), LANES)
        repeat(lanes, vectors, lambda i: body(lanes.product(i, LANES)))

    def _clear(self, place: Value) -> None:
        lanes = self._lanes
        lanes.store(lanes.constant(0.0), lanes.at(self._sums, place))
        target = at_type(lanes, lanes.at(self._totals, place), _DOUBLES)
        lanes.builder.store(ir.Constant(_DOUBLES, [0.0] * LANES), target, align=8)

    def _flush(self, place: Value) -> None:
        lanes, builder = self._lanes, self._lanes.builder
        source = lanes.at(self._sums, place)
        wide = builder.fpext(lanes.load(source), _DOUBLES)
        target = at_type(lanes, lanes.at(self._totals, place), _DOUBLES)
        builder.store(builder.fadd(builder.load(target, align=8), wide), target, align=8)
        lanes.store(lanes.constant(0.0), source)
