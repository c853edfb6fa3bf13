"""Local response normalisation: x * s^-beta, s = bias + factor * sum of x^2 over a window.

Krizhevsky, Sutskever and Hinton, "ImageNet Classification" (2012), section 3.3. The gradient of x
is g * s^-beta - 2 * factor * beta * x * t, t = sum of g * x * s^(-beta - 1) over the windows that
hold x.
"""

from __future__ import annotations

import math

from llvmlite import ir
from numba.core import cgutils

from vectorized_ops.numba.emit.lanes import AVX512, Lanes, Value


def powers(lanes: Lanes, scale: Value, quarters: int) -> tuple[Value, Value]:
    """Return s^-beta and s^-1 of positive numbers, infinity among them; beta = quarters / 4."""
    one = lanes.constant(1.0)
    if quarters == 4:
        inverse = lanes.divide(one, scale)
        return inverse, inverse
    if AVX512:
        root = _inverse_root(lanes, scale)
        inverse, fourth = lanes.multiply(root, root), None
    else:
        inverse = lanes.divide(one, scale)
        root = lanes.square_root(inverse)
        fourth = lanes.square_root(root)
    power = root
    if quarters != 2:
        if fourth is None:
            fourth = lanes.multiply(root, _inverse_root(lanes, root))
        power = fourth if quarters == 1 else lanes.multiply(root, fourth)
    if not AVX512:
        return power, inverse
    infinite = lanes.compare(scale, "==", lanes.constant(math.inf))
    zero = lanes.constant(0.0)
    return lanes.select(infinite, zero, power), lanes.select(infinite, zero, inverse)


def _inverse_root(lanes: Lanes, value: Value) -> Value:
    """Return 1 / sqrt(value) of positive finite numbers, to some units in the last place.

    An estimate to 14 bits and a step of Newton's method: division and square root take many cycles
    each.
    """
    name, mask, kind = "llvm.x86.avx512.rsqrt14.ps.512", ir.IntType(16), value.type
    function = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
        lanes.builder.module, ir.FunctionType(kind, [kind, kind, mask]), name
    )
    first = lanes.builder.call(function, [value, lanes.constant(0.0), mask(-1)])
    half = lanes.multiply(lanes.multiply(value, lanes.constant(-0.5)), first)
    return lanes.multiply(first, lanes.fma(half, first, lanes.constant(1.5)))


def gradient_parts(
    lanes: Lanes, value: Value, arriving: Value, power: Value, inverse: Value
) -> tuple[Value, Value]:
    """Return g * s^-beta, and g * x * s^(-beta - 1), which is spread over the window."""
    direct = lanes.multiply(arriving, power)
    return direct, lanes.multiply(lanes.multiply(direct, value), inverse)


def values_gradient(
    lanes: Lanes, value: Value, direct: Value, spread: Value, slope: Value
) -> Value:
    """Return the gradient of x from its direct part, the sum over windows, -2 * factor * beta."""
    return lanes.fma(lanes.multiply(value, slope), spread, direct)
