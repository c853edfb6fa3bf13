"""Batch normalisation z = (x - mean) * scale / sqrt(variance + epsilon) + offset; its gradient.

Ioffe and Szegedy, "Batch Normalization" (2015). A table has a row of constants, one per channel,
for each of the names below. A ReLU behind the normalisation is a floor of zero: the gradient is
zero where z, computed again, is at most the floor (NaN: nowhere).
"""

from __future__ import annotations

from collections.abc import Sequence
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


def moments(centred: Value) -> list[Term]:
    """Return what is summed up for mean and variance, of x - pivot."""
    return [centred, (centred, centred)]


def normalised(lanes: Lanes, value: Value, forward: Sequence[Value]) -> Value:
    """Return z, from the constants FORWARD."""
    mean, factor, offset = forward
    return lanes.fma(lanes.subtract(value, mean), factor, offset)


def gradient(
    lanes: Lanes, value: Value, arriving: Value, forward: Sequence[Value], floor: Value
) -> tuple[Value, Value]:
    """Return x - mean, and the gradient of z."""
    mean, factor, offset = forward
    centred = lanes.subtract(value, mean)
    dead = lanes.compare(lanes.fma(centred, factor, offset), "<=", floor)
    return centred, lanes.select(dead, lanes.constant(0.0), arriving)


def gradient_sums(centred: Value, slope: Value) -> list[Term]:
    """Return what is summed up for the gradients of offset and scale, from `gradient`."""
    return [slope, (slope, centred)]


def values_gradient(
    lanes: Lanes, value: Value, arriving: Value, backward: Sequence[Value], floor: Value
) -> Value:
    """Return the gradient of x, from the constants BACKWARD."""
    _, factor, _, tilt, level = backward
    centred, slope = gradient(lanes, value, arriving, backward[:3], floor)
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
