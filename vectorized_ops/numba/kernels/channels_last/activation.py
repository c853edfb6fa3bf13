"""ReLU and its gradient on channels_last arrays, also at the ends of convolutions and branches.

The kernels take arguments as `rows` names them, and the dtype of the arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import Lanes, Value
from vectorized_ops.numba.emit.raw_arrays import array_at
from vectorized_ops.numba.kernels.arithmetic.rectifier import at_least, rectified
from vectorized_ops.numba.kernels.channels_last.rows import (
    CHANNELS,
    TOTALS,
    Results,
    padded,
    pass_over_rows,
)
from vectorized_ops.numba.kernels.channels_last.team import THREADS

_pad = kernel(padded)


def _rectified(lanes: Lanes, read: list[Value], _none: list[Value], _scalar: Value) -> Results:
    return [rectified(lanes, read[0])], []


def _joined(lanes: Lanes, read: list[Value], _none: list[Value], floor: Value) -> Results:
    return [at_least(lanes, lanes.add(read[0], read[1]), floor)], []


def _copied(_lanes: Lanes, read: list[Value], _none: list[Value], _scalar: Value) -> Results:
    return read, []


def _cut(lanes: Lanes, read: list[Value], _none: list[Value], _scalar: Value) -> Results:
    outputs, arriving = read
    return [lanes.zero_unless_positive(outputs, arriving)], []


def _cut_and_summed(lanes: Lanes, read: list[Value], _none: list[Value], _scalar: Value) -> Results:
    results, _ = _cut(lanes, read, [], None)
    return results, results


_rectify_pass = pass_over_rows(_rectified, writes=1, reads=1)
_join_pass = pass_over_rows(_joined, writes=1, reads=2)
_copy_pass = pass_over_rows(_copied, writes=1, reads=1)
_add_pass = pass_over_rows(_copied, writes=1, reads=0, summing=True)
_cut_pass = pass_over_rows(_cut, writes=1, reads=1, summing=True)
_cut_and_sum_pass = pass_over_rows(_cut_and_summed, writes=1, reads=1, sums=1, summing=True)


@kernel
def rectify(arguments: Any, element: Any) -> None:
    """Write max(x, 0), NaN where x is NaN; in its place if need be."""
    _rectify_pass(arguments, element)


@kernel
def join(arguments: Any, element: Any) -> None:
    """Write the sum of both arrays that are read, but at least the scalar."""
    _join_pass(arguments, element)


@kernel
def copy(arguments: Any, element: Any) -> None:
    """Write what is read."""
    _copy_pass(arguments, element)


@kernel
def add(arguments: Any, element: Any) -> None:
    """Write the sum of the summands."""
    _add_pass(arguments, element)


@kernel
def cut(arguments: Any, element: Any) -> None:
    """Write the sum of the summands, or zero where the array that is read is <= 0."""
    _cut_pass(arguments, element)


@kernel
def cut_and_sum(arguments: Any, element: Any, sums_address: int) -> None:
    """Do so, and write the sum over all rows of what was written: (C,) float32."""
    _cut_and_sum_pass(arguments, element)
    channels, threads = arguments[CHANNELS], arguments[THREADS]
    totals = array_at(arguments[TOTALS], (threads, _pad(channels)), np.float64)
    sums = array_at(sums_address, (channels,), np.float32)
    for c in range(channels):
        total = 0.0
        for thread in range(threads):
            total += totals[thread, c]
        sums[c] = total
