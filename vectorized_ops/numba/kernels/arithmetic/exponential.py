"""The exponential of a vector. Numba's own is a call per value."""

from __future__ import annotations

import math

from llvmlite import ir

from vectorized_ops.numba.emit.lanes import LANES, Lanes, Value

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
    low, power, rest, square = _reduced(lanes, value)
    result = lanes.fma(lanes.multiply(rest, rest), square, lanes.add(rest, lanes.constant(1.0)))
    return lanes.select(low, lanes.constant(0.0), lanes.multiply(result, power))


def exponential_minus_one(lanes: Lanes, value: Value) -> Value:
    """Return e^value - 1 of values up to 0, as good relatively where it is near zero."""
    low, power, rest, square = _reduced(lanes, value)
    result = lanes.fma(lanes.multiply(rest, rest), square, rest)
    result = lanes.fma(result, power, lanes.subtract(power, lanes.constant(1.0)))
    return lanes.select(low, lanes.constant(-1.0), result)


def _reduced(lanes: Lanes, value: Value) -> tuple[Value, Value, Value, Value]:
    """Return where e^value is zero, and p, r, q with e^value = p (1 + r + r^2 q), p = 2^n."""
    low = lanes.compare(value, "<", lanes.constant(_LOWEST))
    value = lanes.select(low, lanes.constant(_LOWEST), value)
    rounding = lanes.constant(_ROUNDING)
    shifted = lanes.fma(value, lanes.constant(math.log2(math.e)), rounding)
    whole = lanes.subtract(shifted, rounding)
    rest = lanes.fma(whole, lanes.constant(-_LOG2_HIGH), value)
    rest = lanes.fma(whole, lanes.constant(-_LOG2_LOW), rest)
    square = lanes.constant(_COEFFICIENTS[0])
    for coefficient in _COEFFICIENTS[1:]:
        square = lanes.fma(square, rest, lanes.constant(coefficient))
    return low, _two_to(lanes, shifted), rest, square
