"""Rectified linear units, on their own and at the end of other operations.

Comparisons with a NaN fail, so that a NaN passes through all of them.
"""

from __future__ import annotations

from vectorized_ops.numba.emit.lanes import Lanes, Value


def at_least(lanes: Lanes, value: Value, floor: Value) -> Value:
    """Return the value, or the floor where it is below that (NaN: nowhere)."""
    return lanes.select(lanes.compare(value, "<", floor), floor, value)


def rectified(lanes: Lanes, value: Value) -> Value:
    """Return the ReLU of a value."""
    return at_least(lanes, value, lanes.constant(0.0))


def bent(lanes: Lanes, value: Value, slope: Value, ceiling: Value) -> Value:
    """Return a leaky ReLU with a ceiling: `slope` times the value below zero; see `sloped`."""
    cut = lanes.select(lanes.compare(value, ">", ceiling), ceiling, value)
    below = lanes.compare(value, "<", lanes.constant(0.0))
    return lanes.select(below, sloped(lanes, value, slope), cut)


def bent_gradient(
    lanes: Lanes, output: Value, arriving: Value, slope: Value, ceiling: Value
) -> Value:
    """Return the gradient of what `bent` was given, told from its output."""
    zero = lanes.constant(0.0)
    passed = lanes.select(lanes.compare(output, ">=", ceiling), zero, arriving)
    return lanes.select(lanes.compare(output, "<=", zero), sloped(lanes, arriving, slope), passed)


def sloped(lanes: Lanes, value: Value, slope: Value) -> Value:
    """Return value * slope, but zero for a slope (a scalar) of zero, also of an infinite value."""
    none = lanes.builder.fcmp_ordered("==", slope, slope.type(0.0))
    product = lanes.multiply(value, lanes.copies(slope))
    return lanes.builder.select(none, lanes.constant(0.0), product)
