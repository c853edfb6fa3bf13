"""Smooth activation functions and their slopes, of vectors; see `reference.activation`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from vectorized_ops.numba.emit.lanes import Lanes, Value
from vectorized_ops.numba.kernels.arithmetic.exponential import exponential, exponential_minus_one

_NEARNESS = 0.4
_TAIL = (
    0.0400499772, -0.134397864, 0.0715882098, 0.102354837, 0.0696582322, 0.197768717, 0.200747369,
    0.226606117, 0.225624461,
)  # fmt: skip
"""erfc(z) e^(z^2) as a polynomial in t = 1 / (1 + _NEARNESS z) without a constant, highest power
first, to a relative 6e-8 for 0 <= z <= 9.4. Fitted for this; the form is that of Abramowitz and
Stegun, 7.1.26."""

_GELU_SCALE, _GELU_CUBE = 2 * math.sqrt(2 / math.pi), 0.044715


class _Function(NamedTuple):
    """The value at x, and the slope there."""

    value: Callable[[Lanes, Value], Value]
    slope: Callable[[Lanes, Value], Value]


def logistic(lanes: Lanes, value: Value) -> Value:
    """Return 1 / (1 + e^-x), to a relative error of 1e-6 also where it is near zero."""
    power = exponential(lanes, _negative_size(lanes, value))
    upper = lanes.divide(lanes.constant(1.0), lanes.add(power, lanes.constant(1.0)))
    below = lanes.compare(value, "<", lanes.constant(0.0))
    return lanes.select(below, lanes.multiply(power, upper), upper)


def _negative_size(lanes: Lanes, value: Value) -> Value:
    """Return -|x|."""
    negative = lanes.subtract(lanes.constant(-0.0), value)
    return lanes.select(lanes.compare(value, ">", lanes.constant(0.0)), negative, value)


def _logistic_slope(lanes: Lanes, value: Value) -> Value:
    power = exponential(lanes, _negative_size(lanes, value))
    upper = lanes.divide(lanes.constant(1.0), lanes.add(power, lanes.constant(1.0)))
    return lanes.multiply(lanes.multiply(power, upper), upper)


def _tanh(lanes: Lanes, value: Value) -> Value:
    """-(e^-2|x| - 1) / (e^-2|x| + 1) with the sign of x."""
    double = lanes.multiply(_negative_size(lanes, value), lanes.constant(2.0))
    power = exponential_minus_one(lanes, double)
    size = lanes.divide(power, lanes.add(power, lanes.constant(2.0)))
    negative = lanes.subtract(lanes.constant(-0.0), size)
    return lanes.select(lanes.compare(value, ">", lanes.constant(0.0)), negative, size)


def _tanh_slope(lanes: Lanes, value: Value) -> Value:
    double = lanes.multiply(value, lanes.constant(2.0))
    return lanes.multiply(lanes.constant(4.0), _logistic_slope(lanes, double))


def _silu(lanes: Lanes, value: Value) -> Value:
    return lanes.multiply(value, logistic(lanes, value))


def _silu_slope(lanes: Lanes, value: Value) -> Value:
    """s + x s (1 - s)."""
    return lanes.fma(value, _logistic_slope(lanes, value), logistic(lanes, value))


def _cut(lanes: Lanes, value: Value, lowest: float, largest: float) -> Value:
    low, top = lanes.constant(lowest), lanes.constant(largest)
    value = lanes.select(lanes.compare(value, "<", low), low, value)
    return lanes.select(lanes.compare(value, ">", top), top, value)


def _hard_sigmoid(lanes: Lanes, value: Value) -> Value:
    shifted = _cut(lanes, lanes.add(value, lanes.constant(3.0)), 0.0, 6.0)
    return lanes.multiply(shifted, lanes.constant(1 / 6))


def _hard_sigmoid_slope(lanes: Lanes, value: Value) -> Value:
    inside = lanes.builder.and_(
        lanes.compare(value, ">", lanes.constant(-3.0)),
        lanes.compare(value, "<", lanes.constant(3.0)),
    )
    return lanes.select(inside, lanes.constant(1 / 6), lanes.constant(0.0))


def _hard_swish(lanes: Lanes, value: Value) -> Value:
    return lanes.multiply(value, _hard_sigmoid(lanes, value))


def _hard_swish_slope(lanes: Lanes, value: Value) -> Value:
    inside = lanes.fma(value, lanes.constant(1 / 3), lanes.constant(0.5))
    low = lanes.compare(value, "<=", lanes.constant(-3.0))
    high = lanes.compare(value, ">=", lanes.constant(3.0))
    slope = lanes.select(high, lanes.constant(1.0), inside)
    return lanes.select(low, lanes.constant(0.0), slope)


def _normal(lanes: Lanes, value: Value) -> tuple[Value, Value]:
    """Return the normal distribution function at x, and e^(-x^2/2)."""
    half, one = lanes.constant(0.5), lanes.constant(1.0)
    size = lanes.subtract(lanes.constant(-0.0), _negative_size(lanes, value))
    bell = exponential(lanes, lanes.multiply(lanes.multiply(value, value), lanes.constant(-0.5)))
    near = lanes.fma(size, lanes.constant(_NEARNESS / math.sqrt(2)), one)
    near = lanes.divide(one, near)
    tail = lanes.constant(_TAIL[0])
    for coefficient in _TAIL[1:]:
        tail = lanes.fma(tail, near, lanes.constant(coefficient))
    tail = lanes.multiply(lanes.multiply(tail, near), lanes.multiply(bell, half))
    below = lanes.compare(value, "<", lanes.constant(0.0))
    return lanes.select(below, tail, lanes.subtract(one, tail)), bell


def _gelu(lanes: Lanes, value: Value) -> Value:
    return lanes.multiply(value, _normal(lanes, value)[0])


def _gelu_slope(lanes: Lanes, value: Value) -> Value:
    share, bell = _normal(lanes, value)
    density = lanes.multiply(bell, lanes.constant(1 / math.sqrt(2 * math.pi)))
    return lanes.fma(value, density, share)


def _gelu_argument(lanes: Lanes, value: Value) -> Value:
    square = lanes.multiply(value, value)
    factor = lanes.fma(square, lanes.constant(_GELU_CUBE), lanes.constant(1.0))
    return lanes.multiply(lanes.multiply(value, factor), lanes.constant(_GELU_SCALE))


def _gelu_tanh(lanes: Lanes, value: Value) -> Value:
    return lanes.multiply(value, logistic(lanes, _gelu_argument(lanes, value)))


def _gelu_tanh_slope(lanes: Lanes, value: Value) -> Value:
    argument, square = _gelu_argument(lanes, value), lanes.multiply(value, value)
    growth = lanes.fma(
        square, lanes.constant(3 * _GELU_CUBE * _GELU_SCALE), lanes.constant(_GELU_SCALE)
    )
    change = lanes.multiply(value, _logistic_slope(lanes, argument))
    return lanes.fma(growth, change, logistic(lanes, argument))


ACTIVATIONS: Final[dict[str, _Function]] = {
    "gelu": _Function(_gelu, _gelu_slope),
    "gelu_tanh": _Function(_gelu_tanh, _gelu_tanh_slope),
    "hard_sigmoid": _Function(_hard_sigmoid, _hard_sigmoid_slope),
    "hard_swish": _Function(_hard_swish, _hard_swish_slope),
    "sigmoid": _Function(logistic, _logistic_slope),
    "silu": _Function(_silu, _silu_slope),
    "tanh": _Function(_tanh, _tanh_slope),
}
"""In the order of `vectorized_ops.shapes.ACTIVATION_FUNCTIONS`."""
