"""Batch normalisation z = (x - mean) * scale / sqrt(variance + epsilon) + offset; its gradient.

Ioffe and Szegedy, "Batch Normalization" (2015). A table has a row of constants, one per channel,
for each of the names below. What is done to z before it is written is an `epilogue`, to whose
gradient z is given, computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import Lanes, Value
from vectorized_ops.numba.kernels.arithmetic.sums import Term

MEAN, FACTOR, OFFSET, INVERSE, SLOPE, LEVEL = range(6)
"""Rows of the table: z = (x - MEAN) * FACTOR + OFFSET, FACTOR = scale * INVERSE, and the gradient
of x is (that of z - LEVEL + (x - MEAN) * SLOPE) * FACTOR: of few values little is left, and what
cancels is subtracted first."""

TABLE_ROWS = 6
FORWARD = MEAN, FACTOR, OFFSET
BACKWARD = *FORWARD, SLOPE, LEVEL


Through = Callable[[Value, Value], Value]
"""Leads a gradient that arrives at an epilogue, given z, through it."""


def moments(centred: Value) -> list[Term]:
    """Return what is summed up for mean and variance, of x - pivot."""
    return [centred, (centred, centred)]


def normalised(lanes: Lanes, value: Value, forward: Sequence[Value]) -> Value:
    """Return z, from the constants FORWARD."""
    mean, factor, offset = forward
    return lanes.fma(lanes.subtract(value, mean), factor, offset)


def gradient(
    lanes: Lanes, value: Value, arriving: Value, forward: Sequence[Value], through: Through
) -> tuple[Value, Value]:
    """Return x - mean, and the gradient of z."""
    mean, factor, offset = forward
    centred = lanes.subtract(value, mean)
    return centred, through(lanes.fma(centred, factor, offset), arriving)


def gradient_sums(centred: Value, slope: Value) -> list[Term]:
    """Return what is summed up for the gradients of offset and scale, from `gradient`."""
    return [slope, (slope, centred)]


def values_gradient(
    lanes: Lanes, value: Value, arriving: Value, backward: Sequence[Value], through: Through
) -> Value:
    """Return the gradient of x, from the constants BACKWARD."""
    _, factor, _, tilt, level = backward
    centred, slope = gradient(lanes, value, arriving, backward[:3], through)
    return lanes.multiply(lanes.fma(centred, tilt, lanes.subtract(slope, level)), factor)


@kernel
def mean_and_variance(pivot: float, total: float, square: float, count: int) -> tuple[float, float]:
    """Return both, from the sums of x - pivot and of its square."""
    shifted = total / count
    variance = square / count - shifted * shifted
    return pivot + shifted, 0.0 if variance < 0.0 else variance


@kernel
def write_forward(
    table: Any, c: int, mean: float, variance: float, scale: float, offset: float, epsilon: float
) -> None:
    """Write the rows FORWARD and INVERSE of channel `c`."""
    inverse = 1.0 / np.sqrt(variance + epsilon)
    table[MEAN, c], table[FACTOR, c] = mean, scale * inverse
    table[OFFSET, c], table[INVERSE, c] = offset, inverse


@kernel
def write_backward(table: Any, c: int, total: float, product: float, count: int) -> None:
    """Write SLOPE and LEVEL of channel `c`, from the sums of the gradient, over `count` values."""
    inverse = np.float64(table[INVERSE, c])
    table[SLOPE, c] = -inverse * inverse * product / count
    table[LEVEL, c] = total / count
