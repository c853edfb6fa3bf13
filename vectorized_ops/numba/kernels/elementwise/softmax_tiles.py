# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""The softmax of one vector of images, and the exponential it needs, as Numba intrinsics.

Numba's own exponential is a call per value. Indices count elements.
"""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir
from numba import types

from vectorized_ops.numba.emit.flow import fold
from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value, tile

_LOWEST = -87.0
"""Below, e^x is hardly a normal number any more, and is made zero."""

_ROUNDING = 1.5 * 2.0**23
"""Added to a small float it leaves the nearest whole number in the last bits."""

_LOG2_HIGH, _LOG2_LOW = 0.693359375, -2.12194440e-4
"""log(2) in two parts; n times the first is exact."""

_COEFFICIENTS = (
    1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1,
    5.0000001201e-1,
)  # fmt: skip
"""(e^r - 1 - r) / r^2 for |r| <= log(2)/2, highest power first (Cephes, S. L. Moshier)."""


def _two_to(lanes: Lanes, shifted: Value) -> Value:
    """Return 2^n for vectors n + _ROUNDING, n whole and between -126 and 127."""
    builder, one = lanes.builder, lanes.constant(1.0)
    kind = lanes.lane_numbers().type
    exponents = builder.shl(builder.bitcast(shifted, kind), ir.Constant(kind, [23] * LANES))
    return builder.bitcast(builder.add(exponents, builder.bitcast(one, kind)), one.type)


def exponential(lanes: Lanes, value: Value) -> Value:
    """Return e^value of values up to 0, good to about one unit in the last place; NaN stays NaN."""
    low = lanes.compare(value, "<", lanes.constant(_LOWEST))
    value = lanes.select(low, lanes.constant(_LOWEST), value)
    rounding = lanes.constant(_ROUNDING)
    shifted = lanes.fma(value, lanes.constant(math.log2(math.e)), rounding)
    whole = lanes.subtract(shifted, rounding)
    rest = lanes.fma(whole, lanes.constant(-_LOG2_HIGH), value)
    rest = lanes.fma(whole, lanes.constant(-_LOG2_LOW), rest)
    result = lanes.constant(_COEFFICIENTS[0])
    for coefficient in _COEFFICIENTS[1:]:
        result = lanes.fma(result, rest, lanes.constant(coefficient))
    one = lanes.constant(1.0)
    result = lanes.fma(lanes.multiply(rest, rest), result, lanes.add(rest, one))
    return lanes.select(low, lanes.constant(0.0), lanes.multiply(result, _two_to(lanes, shifted)))


@tile
def softmax_tile(
    typingctx: Any, gradient: Any, logits: Any, index: Any, row: Any, classes: Any, share: Any,
    factor: Any, count: Any, state: Any,
) -> Any:  # fmt: skip
    """Write (softmax - share) * factor of the first `count` images, zero in the others.

    Class k begins at index + k*row. For each image, `state` gets the largest logit, the sum of
    e^(logit - largest) over the classes and that of logit - largest: LANES of each.
    """
    signature = types.void(
        gradient, logits, types.int64, types.int64, types.int64, types.float32, types.float32,
        types.int64, state,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        target, source = lanes.pointer(0, args[0], args[2]), lanes.pointer(1, args[1], args[2])
        zero, classes = lanes.constant(0.0), args[4]

        def largest_of(number: Value, values: list[Value]) -> list[Value]:
            value = lanes.load(lanes.at(source, lanes.product(number, args[3])))
            best, _ = lanes.larger(values[0], lanes.lane_numbers(), value, lanes.lane_numbers())
            return [best]

        (largest,) = fold(lanes, 1, classes, [lanes.load(source)], largest_of)

        def summed(number: Value, sums: list[Value]) -> list[Value]:
            value = lanes.load(lanes.at(source, lanes.product(number, args[3])))
            shifted = lanes.subtract(value, largest)
            power = exponential(lanes, shifted)
            lanes.store(power, lanes.at(target, lanes.product(number, args[3])))
            return [lanes.add(sums[0], power), lanes.add(sums[1], shifted)]

        total, distance = fold(lanes, 0, classes, [zero, zero], summed)
        for i, value in enumerate((largest, total, distance)):
            lanes.store(value, lanes.pointer(8, args[8], i * LANES))
        share, factor = lanes.copies(args[5]), lanes.copies(args[6])
        inverse = lanes.divide(lanes.constant(1.0), total)
        real = builder.icmp_signed("<", lanes.lane_numbers(), lanes.same(args[7]))

        def scaled(number: Value, _values: list[Value]) -> list[Value]:
            place = lanes.at(target, lanes.product(number, args[3]))
            slope = lanes.subtract(lanes.multiply(lanes.load(place), inverse), share)
            lanes.store(lanes.select(real, lanes.multiply(slope, factor), zero), place)
            return []

        fold(lanes, 0, classes, [], scaled)
        return context.get_dummy_value()

    return signature, generate
