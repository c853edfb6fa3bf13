# ruff: noqa: ARG001 (what an intrinsic is given here are types: code is made from `args`)
"""Local response normalisation of channels_last arrays: one read forward, two backward.

A pixel is a row of channels, and its window moves along the row in registers: neighbours of the
lanes of a vector come from the vectors before and behind it. s = bias + factor * sum of x^2 over
the window, in which `before` channels precede the one in question and `behind` follow it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from numba import types

from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.flow import fold
from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value, tile
from vectorized_ops.numba.kernels.arithmetic import lrn as arithmetic
from vectorized_ops.numba.kernels.arithmetic.rectifier import at_least
from vectorized_ops.numba.kernels.channels_last.delivery import Delivery
from vectorized_ops.numba.kernels.channels_last.lanes import (
    element_of,
    first_lanes,
    larger,
    load_lanes,
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
    _THREADS, ROWS, CHANNELS, PAST, BIAS, FACTOR, SLOPE, FLOOR, OUT, VALUES, GRADIENT,
    OUT_DISTANCE, VALUES_DISTANCE, GRADIENT_DISTANCE, ADD, MASKED, MASK, MASK_DISTANCE,
) = range(THREADS, THREADS + 18)  # fmt: skip
"""Places in the arguments of both kernels: counts, a flag, bits of doubles, addresses.

The kernels are also given the dtype of the arrays, as `rows` has it.

SLOPE is -2 * factor * beta. Values below FLOOR (NaN: none) count as if they were FLOOR, as a ReLU
makes them, and the gradient of values that are not above it is zero. Rows of each array lie its
DISTANCE apart. ADD and MASKED are flags of the backward pass: to add to what is there, and to write
zero where MASK is <= 0.
"""

LARGEST_SIDE = 8
"""Channels that a window may reach to either side: the lanes of the narrower vector."""


@dataclass(frozen=True)
class _Window:
    """How far a window reaches to both sides, and the exponent beta in quarters."""

    before: int
    behind: int
    quarters: int


def has_kernel(size: int, beta: float) -> bool:
    """Tell whether there is a kernel for windows of `size` channels and this exponent."""
    return 1 <= size <= 2 * LARGEST_SIDE + 1 and beta in (0.25, 0.5, 0.75, 1.0)


@cache
def kernels(before: int, behind: int, quarters: int) -> tuple[Any, Any]:
    """Return the kernels (forward, backward) for a window, and beta = quarters / 4, 1 to 4.

    Forward reads VALUES and writes OUT; backward reads GRADIENT as well.
    """
    forward_pass = _pass(before, behind, quarters, backward=False)
    backward_pass = _pass(before, behind, quarters, backward=True)

    @kernel
    def forward(arguments: Any, element: Any) -> None:
        forward_pass(arguments, element)

    @kernel
    def backward(arguments: Any, element: Any) -> None:
        backward_pass(arguments, element)

    return forward, backward


def _pass(before: int, behind: int, quarters: int, backward: bool) -> Any:
    @tile
    def lrn_pass(typingctx: Any, arguments: Any, element: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            given = Lanes(context, builder, signature).pointer(0, args[0])

            def work(lanes: Lanes, given: Value, share: Value, shares: Value) -> None:
                window = _Window(before, behind, quarters)
                emitter = _Rows(lanes, given, window, element_of(signature))
                row = emitter.backward if backward else emitter.forward
                first, last = (
                    part(lanes, argument(lanes, given, ROWS), bound, shares)
                    for bound in (share, lanes.sum(share, 1))
                )
                fold(lanes, first, last, [], lambda index, _none: row(index))

            emit_in_team(context, builder, signature, given, work)
            return context.get_dummy_value()

        return types.void(arguments, element), generate

    return lrn_pass


class _Rows:
    """Emits the work on one row."""

    def __init__(self, lanes: Lanes, given: Value, window: _Window, element: Any) -> None:
        self._lanes, self._window = lanes, window
        self._channels, self._past = argument(lanes, given, CHANNELS), flag(lanes, given, PAST)
        self._bias, self._factor, self._slope, self._floor = (
            number(lanes, given, place) for place in (BIAS, FACTOR, SLOPE, FLOOR)
        )
        self._out, self._values, self._gradient = (
            address(lanes, given, place, element) for place in (OUT, VALUES, GRADIENT)
        )
        self._distances = [
            argument(lanes, given, place)
            for place in (OUT_DISTANCE, VALUES_DISTANCE, GRADIENT_DISTANCE, MASK_DISTANCE)
        ]
        self._mask = address(lanes, given, MASK, element)
        add, masked = (flag(lanes, given, place) for place in (ADD, MASKED))
        self._delivery = Delivery(lanes, add, masked, self._past)
        self._zero = lanes.constant(0.0)

    def forward(self, row: Value) -> list[Value]:
        """Write x * s^-beta."""
        lanes = self._lanes
        to, values_apart, _, _ = self._distances
        values, out = self._row(self._values, row, values_apart), self._row(self._out, row, to)

        def step(carried: list[Value], offset: Value) -> tuple[Value, list[Value]]:
            before, here, value = carried
            following = self._value(values, lanes.sum(offset, LANES))
            behind = lanes.multiply(following, following)
            power, _ = self._powers([before, here, behind])
            return lanes.multiply(value, power), [here, behind, following]

        first = self._value(values, lanes.integer(0))
        self._write(out, None, [self._zero, lanes.multiply(first, first), first], step)
        return []

    def backward(self, row: Value) -> list[Value]:
        """Write the gradient of x."""
        lanes = self._lanes
        starts = self._out, self._values, self._gradient, self._mask
        out, values, arriving, mask = (
            self._row(start, row, apart)
            for start, apart in zip(starts, self._distances, strict=True)
        )

        def ahead(squares: list[Value], value: Value, offset: Value) -> list[Value]:
            """Return what is known of the vector at `offset`, one ahead of what is written."""
            power, inverse = self._powers(squares)
            gradient = self._load(arriving, offset)
            return [*arithmetic.gradient_parts(lanes, value, gradient, power, inverse)]

        def step(carried: list[Value], offset: Value) -> tuple[Value, list[Value]]:
            value, scaled, share_before, share, square, following, square_following = carried
            further = self._value(values, lanes.sum(offset, 2 * LANES))
            square_further = lanes.multiply(further, further)
            scaled_following, share_behind = ahead(
                [square, square_following, square_further], following, lanes.sum(offset, LANES)
            )
            shares = self._sum([share_before, share, share_behind], turned=True)
            result = arithmetic.values_gradient(lanes, value, scaled, shares, self._slope)
            dead = lanes.compare(value, "<=", self._floor)  # A value below it has become it.
            return lanes.select(dead, self._zero, result), [
                following, scaled_following, share, share_behind, square_following, further,
                square_further,
            ]  # fmt: skip

        first, second = (self._value(values, lanes.integer(i * LANES)) for i in range(2))
        squares = [lanes.multiply(vector, vector) for vector in (first, second)]
        scaled, share = ahead([self._zero, *squares], first, lanes.integer(0))
        start = [first, scaled, self._zero, share, squares[0], second, squares[1]]
        self._write(out, mask, start, step)
        return []

    def _write(
        self,
        out: Value,
        mask: Value | None,
        start: list[Value],
        step: Callable[[list[Value], Value], tuple[Value, list[Value]]],
    ) -> None:
        """Emit the loop over vectors; only the last may be in part beyond the row.

        With a `mask` they are a gradient, which is delivered.
        """
        lanes = self._lanes

        def store(result: Value, offset: Value, inside: Value | None) -> None:
            place = lanes.at(out, offset)
            if mask is None:
                store_lanes(lanes, result, place, inside, self._past)
            else:
                self._delivery.write([result], [place], [lanes.at(mask, offset)], inside)

        whole = lanes.quotient(lanes.builder.sub(self._channels, lanes.integer(1)), LANES)

        def body(index: Value, carried: list[Value]) -> list[Value]:
            offset = lanes.product(index, LANES)
            result, carried = step(carried, offset)
            store(result, offset, None)
            return carried

        carried = fold(lanes, 0, whole, start, body)
        offset = lanes.product(whole, LANES)
        result, _ = step(carried, offset)
        rest = lanes.builder.sub(self._channels, offset)
        is_whole = lanes.builder.icmp_signed("==", rest, lanes.integer(LANES))
        with lanes.builder.if_else(is_whole) as (full, partly):
            with full:
                store(result, offset, None)
            with partly:
                store(result, offset, first_lanes(lanes, rest))

    def _load(self, row: Value, offset: Value) -> Value:
        """Return the vector at `offset` of a row, zeros where that is beyond it."""
        lanes = self._lanes
        rest = larger(lanes, lanes.builder.sub(self._channels, lanes.integer(offset)), 0)
        return load_lanes(lanes, lanes.at(row, offset), first_lanes(lanes, rest))

    def _value(self, row: Value, offset: Value) -> Value:
        """Return the values at `offset` of a row, at least the floor; a NaN stays."""
        lanes, value = self._lanes, self._load(row, offset)
        return at_least(lanes, value, self._floor)

    def _row(self, start: Value, row: Value, apart: Value) -> Value:
        return self._lanes.at(start, self._lanes.product(row, apart))

    def _sum(self, vectors: list[Value], turned: bool = False) -> Value:
        """Return the sums over the windows of the middle one of three vectors."""
        lanes, (left, middle, right) = self._lanes, vectors
        before, behind = self._window.before, self._window.behind
        if turned:
            before, behind = behind, before
        total = middle
        for i in range(1, before + 1):
            total = lanes.add(total, lanes.shuffle(left, middle, range(LANES - i, 2 * LANES - i)))
        for i in range(1, behind + 1):
            total = lanes.add(total, lanes.shuffle(middle, right, range(i, LANES + i)))
        return total

    def _powers(self, squares: list[Value]) -> tuple[Value, Value]:
        """Return s^-beta and s^-1 of the middle one of three vectors of squares."""
        scale = self._lanes.fma(self._sum(squares), self._factor, self._bias)
        return arithmetic.powers(self._lanes, scale, self._window.quarters)
