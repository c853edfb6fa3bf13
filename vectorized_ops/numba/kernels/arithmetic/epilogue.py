"""Epilogues of vectors, numbered: a floor, a rectifier, and the smooth activation functions.

A floor of zero is a ReLU. Of a rectifier `low` is the slope and `high` the ceiling, of a floor
`low` is the floor: -inf for values and NaN for gradients where there is none. Both are scalars.
"""

from __future__ import annotations

from typing import Final

from vectorized_ops.epilogue import IDENTITY, RECTIFIER, RELU, Epilogue
from vectorized_ops.numba.emit.lanes import Lanes, Value
from vectorized_ops.numba.kernels.arithmetic.activation import ACTIVATIONS
from vectorized_ops.numba.kernels.arithmetic.rectifier import at_least, bent, bent_gradient
from vectorized_ops.shapes import ACTIVATION_FUNCTIONS

FLOOR, BENT, SMOOTH = range(3)
"""Numbers of epilogues; SMOOTH is that of the first activation function."""

_SMOOTH: Final = tuple(ACTIVATIONS.values())


def number_of(wanted: Epilogue) -> int:
    """Return the number of an epilogue."""
    if wanted.function != RECTIFIER:
        return SMOOTH + ACTIVATION_FUNCTIONS.index(wanted.function)
    return FLOOR if wanted in (IDENTITY, RELU) else BENT


def epilogue(lanes: Lanes, number: int, value: Value, low: Value, high: Value) -> Value:
    """Return what the epilogue of this number makes of a value."""
    if number == FLOOR:
        return at_least(lanes, value, lanes.copies(low))
    if number == BENT:
        return bent(lanes, value, low, lanes.copies(high))
    return _SMOOTH[number - SMOOTH].value(lanes, value)


def epilogue_gradient(
    lanes: Lanes, number: int, value: Value, arriving: Value, low: Value, high: Value
) -> Value:
    """Return the gradient of the value that `epilogue` was given."""
    if number == FLOOR:
        return above_floor(lanes, value, arriving, lanes.copies(low))
    if number == BENT:
        return bent_gradient(lanes, value, arriving, low, lanes.copies(high))
    return lanes.multiply(arriving, _SMOOTH[number - SMOOTH].slope(lanes, value))


def above_floor(lanes: Lanes, value: Value, arriving: Value, floor: Value) -> Value:
    """Return the gradient, or zero where the value is at most the floor, a vector."""
    dead = lanes.compare(value, "<=", floor)
    return lanes.select(dead, lanes.constant(0.0), arriving)
