"""Batch normalisation of channels_last arrays: the passes, and what is computed once per channel.

The values are read once for the statistics, and the mask of a ReLU behind the normalisation is
computed again where its gradient passes. The kernels take arguments as `rows` names them; those
that pass over arrays also take the dtype of these.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from vectorized_ops.epilogue import RELU, Epilogue
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.bfloat16 import element as number_in
from vectorized_ops.numba.emit.lanes import Lanes, Value
from vectorized_ops.numba.emit.raw_arrays import array_at
from vectorized_ops.numba.kernels.arithmetic import batch_normalisation as arithmetic
from vectorized_ops.numba.kernels.arithmetic.epilogue import (
    FLOOR,
    above_floor,
    epilogue,
    epilogue_gradient,
    number_of,
)
from vectorized_ops.numba.kernels.arithmetic.rectifier import at_least
from vectorized_ops.numba.kernels.channels_last.rows import (
    CHANNELS,
    ROWS,
    STREAMS,
    TABLE,
    TOTALS,
    Results,
    padded,
    pass_over_rows,
)
from vectorized_ops.numba.kernels.channels_last.team import THREADS

SCALE, OFFSET, RUNNING_MEAN, RUNNING_VARIANCE = range(4)
"""Places in the addresses of a layer's parameters and statistics; 0 where there are none."""

_SAMPLES = 16
"""Rows whose mean is the pivot: sums of x - pivot and of its square lose little, since the squared
distance of pivot and mean is at most (rows / _SAMPLES) variances, and seldom more than one."""

_pad = kernel(padded)


def _moments(lanes: Lanes, read: list[Value], pivots: list[Value], _scalar: Value) -> Results:
    return [], arithmetic.moments(lanes.subtract(read[0], pivots[0]))


def _normalise(lanes: Lanes, read: list[Value], constants: list[Value], floor: Value) -> Results:
    """Write z, plus a second value that is read, or the floor where the sum is below it."""
    result = arithmetic.normalised(lanes, read[0], constants)
    for addend in read[1:]:
        result = lanes.add(result, addend)
    return [at_least(lanes, result, floor)], []


class EpiloguePasses(NamedTuple):
    """Kernels that write the epilogue of z, sum up the gradient, and write or add that of x.

    Their arguments are as those of `normalise`, `gradient_sums`, `denormalise` and
    `add_denormalised`.
    """

    normalise: Any
    gradient_sums: Any
    denormalise: Any
    add_denormalised: Any


@functools.cache
def epilogue_passes(number: int, clipped: bool = False) -> EpiloguePasses:
    """Return the passes with the epilogue of this number.

    The scalar is the floor, or the slope of a rectifier without ceiling, or if it is `clipped` the
    ceiling of one whose slope is 0.
    """
    if number == FLOOR:
        return EpiloguePasses(normalise, gradient_sums, denormalise, add_denormalised)

    def limits(scalar: Value) -> tuple[Value, Value]:
        return (scalar.type(0.0), scalar) if clipped else (scalar, scalar.type(math.inf))

    def through(lanes: Lanes, scalar: Value) -> arithmetic.Through:
        low, high = limits(lanes.first(scalar))
        return lambda value, arriving: epilogue_gradient(lanes, number, value, arriving, low, high)

    def written(lanes: Lanes, read: list[Value], constants: list[Value], scalar: Value) -> Results:
        value = arithmetic.normalised(lanes, read[0], constants)
        return [epilogue(lanes, number, value, *limits(lanes.first(scalar)))], []

    def summed(lanes: Lanes, read: list[Value], constants: list[Value], scalar: Value) -> Results:
        values, arriving = read
        passed = arithmetic.gradient(lanes, values, arriving, constants, through(lanes, scalar))
        return [], arithmetic.gradient_sums(*passed)

    def back(lanes: Lanes, read: list[Value], constants: list[Value], scalar: Value) -> Results:
        values, arriving, *before = read
        passed = through(lanes, scalar)
        result = arithmetic.values_gradient(lanes, values, arriving, constants, passed)
        return [_added(lanes, result, before)], []

    written_pass = pass_over_rows(written, writes=1, reads=1, constants=arithmetic.FORWARD)
    summed_pass = pass_over_rows(summed, writes=0, reads=2, constants=arithmetic.FORWARD, sums=2)
    back_pass, added_pass = (
        pass_over_rows(back, writes=1, reads=reads, constants=arithmetic.BACKWARD)
        for reads in (2, 3)
    )

    @kernel
    def write(arguments: Any, element: Any) -> None:
        written_pass(arguments, element)

    @kernel
    def sum_up(arguments: Any, element: Any) -> None:
        summed_pass(arguments, element)

    @kernel
    def go_back(arguments: Any, element: Any) -> None:
        back_pass(arguments, element)

    @kernel
    def add_back(arguments: Any, element: Any) -> None:
        added_pass(arguments, element)

    return EpiloguePasses(write, sum_up, go_back, add_back)


def _added(lanes: Lanes, result: Value, addends: list[Value]) -> Value:
    for addend in addends:
        result = lanes.add(addend, result)
    return result


def passes_of(epilogue: Epilogue, no_floor: float) -> tuple[EpiloguePasses, float]:
    """Return the passes of an epilogue, and their scalar: `no_floor` where nothing is cut off."""
    number, clipped = number_of(epilogue), epilogue.ceiling < math.inf
    scalar = epilogue.ceiling if clipped else epilogue.slope
    if number == FLOOR:
        scalar = 0.0 if epilogue == RELU else no_floor
    return epilogue_passes(number, clipped), scalar


def _above(lanes: Lanes, floor: Value) -> arithmetic.Through:
    return lambda value, arriving: above_floor(lanes, value, arriving, floor)


def _gradient_sums(
    lanes: Lanes, read: list[Value], constants: list[Value], floor: Value
) -> Results:
    values, arriving = read
    return [], arithmetic.gradient_sums(
        *arithmetic.gradient(lanes, values, arriving, constants, _above(lanes, floor))
    )


def _values_gradient(
    lanes: Lanes, read: list[Value], constants: list[Value], floor: Value
) -> Results:
    values, arriving, *before = read
    through = _above(lanes, floor)
    result = arithmetic.values_gradient(lanes, values, arriving, constants, through)
    return [_added(lanes, result, before)], []


def _joint_gradient_sums(
    lanes: Lanes, read: list[Value], constants: list[Value], _scalar: Value
) -> Results:
    """Cut the gradient where the output, ReLU's, is not positive; write it, and sum it up."""
    values, outputs, arriving = read
    slope = lanes.zero_unless_positive(outputs, arriving)
    return [slope], arithmetic.gradient_sums(lanes.subtract(values, constants[0]), slope)


_moments_pass = pass_over_rows(_moments, writes=0, reads=1, constants=(0,), sums=2)
_normalise_pass = pass_over_rows(_normalise, writes=1, reads=1, constants=arithmetic.FORWARD)
_join_pass = pass_over_rows(_normalise, writes=1, reads=2, constants=arithmetic.FORWARD)
_sums_pass = pass_over_rows(_gradient_sums, writes=0, reads=2, constants=arithmetic.FORWARD, sums=2)
_joint_sums_pass = pass_over_rows(
    _joint_gradient_sums, writes=1, reads=2, constants=(arithmetic.MEAN,), sums=2, summing=True
)
_values_gradient_pass, _added_gradient_pass = (
    pass_over_rows(_values_gradient, writes=1, reads=reads, constants=arithmetic.BACKWARD)
    for reads in (2, 3)
)


@kernel
def moments(arguments: Any, element: Any) -> None:
    """Sum up x - pivot and its square; the pivots are written into the table, of one row."""
    rows, channels, distance = arguments[ROWS], arguments[CHANNELS], arguments[STREAMS + 1]
    values = array_at(arguments[STREAMS], (rows * distance,), element)
    pivots = array_at(arguments[TABLE], (_pad(channels),), np.float32)
    samples = min(rows, _SAMPLES)
    pivots[:] = 0.0
    for sample in range(samples):
        begin = sample * rows // samples * distance
        for c in range(channels):
            pivots[c] += number_in(values, begin + c)
    for c in range(channels):
        pivots[c] /= np.float32(samples)
    _moments_pass(arguments, element)


@kernel
def statistics(
    arguments: Any, table_address: int, parameters: Any, epsilon: float, momentum: float
) -> None:
    """Fill the table with what `moments` found, and move the running statistics (momentum of 1)."""
    rows, channels = arguments[ROWS], arguments[CHANNELS]
    row = _pad(channels)
    pivots = array_at(arguments[TABLE], (row,), np.float32)
    totals = array_at(arguments[TOTALS], (arguments[THREADS], 2, row), np.float64)
    table = array_at(table_address, (arithmetic.TABLE_ROWS, row), np.float32)
    for c in range(channels):
        mean, variance = arithmetic.mean_and_variance(
            pivots[c], _over_threads(totals, 0, c), _over_threads(totals, 1, c), rows
        )
        _write_forward(table, c, mean, variance, parameters, epsilon)
        if parameters[RUNNING_MEAN]:
            running = array_at(parameters[RUNNING_MEAN], (channels,), np.float32)
            spread = array_at(parameters[RUNNING_VARIANCE], (channels,), np.float32)
            unbiased = variance * (rows / (rows - 1.0))
            running[c] = (1.0 - momentum) * running[c] + momentum * mean
            spread[c] = (1.0 - momentum) * spread[c] + momentum * unbiased


@kernel
def write_statistics(arguments: Any, mean: Any, variance: Any) -> None:
    """Write mean and biased variance (C,) float32 from what `moments` found."""
    rows, channels = arguments[ROWS], arguments[CHANNELS]
    row = _pad(channels)
    pivots = array_at(arguments[TABLE], (row,), np.float32)
    totals = array_at(arguments[TOTALS], (arguments[THREADS], 2, row), np.float64)
    for c in range(channels):
        mean[c], variance[c] = arithmetic.mean_and_variance(
            pivots[c], _over_threads(totals, 0, c), _over_threads(totals, 1, c), rows
        )


@kernel
def running_statistics(channels: int, table_address: int, parameters: Any, epsilon: float) -> None:
    """Fill the table with the running statistics."""
    table = array_at(table_address, (arithmetic.TABLE_ROWS, _pad(channels)), np.float32)
    running = array_at(parameters[RUNNING_MEAN], (channels,), np.float32)
    spread = array_at(parameters[RUNNING_VARIANCE], (channels,), np.float32)
    for c in range(channels):
        _write_forward(table, c, running[c], spread[c], parameters, epsilon)


@kernel
def _write_forward(
    table: Any, c: int, mean: float, variance: float, parameters: Any, epsilon: float
) -> None:
    scale, offset = 1.0, 0.0
    if parameters[SCALE]:
        scale = array_at(parameters[SCALE], (c + 1,), np.float32)[c]
    if parameters[OFFSET]:
        offset = array_at(parameters[OFFSET], (c + 1,), np.float32)[c]
    arithmetic.write_forward(table, c, mean, variance, scale, offset, epsilon)


@kernel
def _over_threads(totals: Any, which: int, channel: int) -> float:
    total = 0.0
    for thread in range(len(totals)):
        total += totals[thread, which, channel]
    return total


@kernel
def normalise(arguments: Any, element: Any) -> None:
    """Write z, but at least the scalar."""
    _normalise_pass(arguments, element)


@kernel
def join(arguments: Any, element: Any) -> None:
    """Write z plus the second array that is read, but at least the scalar."""
    _join_pass(arguments, element)


@kernel
def gradient_sums(arguments: Any, element: Any) -> None:
    """Sum up the gradient and its product with x - mean; zero counts where z is at most the scalar.

    Reads x and the gradient.
    """
    _sums_pass(arguments, element)


@kernel
def joint_gradient_sums(arguments: Any, element: Any) -> None:
    """Do so for the sum of the gradients, zero where the output is not positive, and write it.

    Reads x and the output.
    """
    _joint_sums_pass(arguments, element)


@kernel
def slopes(arguments: Any, table_address: int, parameters: Any, training: bool) -> None:
    """Write the gradients of scale and offset from sums, and what `denormalise` has to know.

    The table of the arguments is read, the table to be written may be the same; `parameters` are
    the addresses of the two gradients, 0 where none is wanted. Out of training, mean and variance
    are constants.
    """
    rows, channels = arguments[ROWS], arguments[CHANNELS]
    row = _pad(channels)
    totals = array_at(arguments[TOTALS], (arguments[THREADS], 2, row), np.float64)
    given = array_at(arguments[TABLE], (arithmetic.TABLE_ROWS, row), np.float32)
    table = array_at(table_address, (arithmetic.TABLE_ROWS, row), np.float32)
    for kind in range(arithmetic.TABLE_ROWS):
        for c in range(row):
            table[kind, c] = given[kind, c]
    for c in range(channels):
        total, product = _over_threads(totals, 0, c), _over_threads(totals, 1, c)
        inverse = np.float64(given[arithmetic.INVERSE, c])
        if parameters[SCALE]:
            array_at(parameters[SCALE], (channels,), np.float32)[c] = product * inverse
        if parameters[OFFSET]:
            array_at(parameters[OFFSET], (channels,), np.float32)[c] = total
        if training:
            arithmetic.write_backward(table, c, total, product, rows)


@kernel
def denormalise(arguments: Any, element: Any) -> None:
    """Write the gradient of x; reads x and the gradient of z, which counts as `gradient_sums` says.

    The array written may be one of those read.
    """
    _values_gradient_pass(arguments, element)


@kernel
def add_denormalised(arguments: Any, element: Any) -> None:
    """Do so, and add the third array that is read."""
    _added_gradient_pass(arguments, element)
