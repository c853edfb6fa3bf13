"""Gradients before an optimizer uses them: norms, clipping, regularisation, compiled by Numba."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, final

import numba
import numpy as np
import numpy.typing as npt

from vectorized_ops.layout import AnyArray
from vectorized_ops.numba.compiling.compiler import kernel, parallel_kernel
from vectorized_ops.numba.emit.raw_arrays import stack_vector
from vectorized_ops.numba.emit.threads import part
from vectorized_ops.parameter_groups import Clipping, ParameterGroups

_PIECE = 4096
"""Values that a thread sums at a time: 16 KiB, a microsecond of work."""

_SUMS = 32
"""Sums of doubles that a piece is spread over: four registers of AVX-512, so none waits."""


@final
class SquaredNorms:
    """Sums of squares of each group of packed vectors, added in double.

    A group is summed in pieces that are divided among threads. The sums of pieces are added in
    order, so the result has the same bits with any number of threads.
    """

    def __init__(self, groups: ParameterGroups) -> None:
        pieces = [range(start, stop, _PIECE) for start, stop in pairwise(groups.bounds.tolist())]
        counts = [len(each) for each in pieces]
        starts = [start for each in pieces for start in each]
        self._bounds = np.array([*starts, groups.size], np.int64)
        self._first = np.cumsum([0, *counts])
        self._partial = np.zeros(len(starts))

    def of(self, vector: AnyArray, bound: float, out: npt.NDArray[np.float64]) -> None:
        """Write into `out` (S,) the sums of the squares of `vector` (n,) brought into ±bound."""
        threads = numba.get_num_threads()
        _square(vector, np.float32(bound), self._bounds, self._first, self._partial, out, threads)


@final
class GradientScale:
    """The factor of gradients that keeps their norm within that of a clipping."""

    def __init__(self, groups: ParameterGroups, clipping: Clipping) -> None:
        self._clipping = clipping
        self._statistics = groups.statistics
        self._norms = SquaredNorms(groups)
        self._squares = np.zeros(len(groups.rates))

    def of(self, gradient: AnyArray) -> float:
        """Return the factor for `gradient` (n,); reads it once, or not if no norm is given."""
        if self._clipping.norm == math.inf:
            return 1.0
        self._norms.of(gradient, self._clipping.value, self._squares)
        return norm_scale(self._squares, self._statistics, self._clipping.norm)


@kernel
def norm_scale(squares: Any, statistics: Any, largest: float) -> float:
    """Return largest / norm if the norm of all groups, from `squares` (S,), is larger; else 1."""
    total = 0.0
    for s in range(len(squares)):
        if math.isnan(statistics[s]):
            total += squares[s]
    norm = math.sqrt(total)
    return largest / norm if norm > largest else 1.0


@kernel
def within(value: Any, bound: Any) -> Any:
    """Return `value` brought into ±bound; NaN stays NaN."""
    above = bound if value > bound else value
    return -bound if value < -bound else above


@kernel
def _sum_of_squares(values: Any, bound: Any, sums: Any) -> float:
    sums[:] = 0.0
    rows = values[: len(values) // _SUMS * _SUMS].reshape(-1, _SUMS)
    for row in range(len(rows)):
        for lane in range(_SUMS):
            value = np.float64(within(rows[row, lane], bound))
            sums[lane] += value * value
    for lane in range(len(values) - rows.size):
        value = np.float64(within(values[rows.size + lane], bound))
        sums[lane] += value * value
    total = 0.0
    for lane in range(_SUMS):
        total += sums[lane]
    return total


@parallel_kernel
def _square(
    vector: Any, bound: Any, bounds: Any, first: Any, partial: Any, out: Any, threads: int
) -> None:
    pieces = len(partial)
    for thread in numba.prange(threads):
        sums = stack_vector(_SUMS, np.float64)
        for piece in range(part(pieces, thread, threads), part(pieces, thread + 1, threads)):
            values = vector[bounds[piece] : bounds[piece + 1]]
            partial[piece] = _sum_of_squares(values, bound, sums)
    for s in range(len(out)):
        total = 0.0
        for number in range(first[s], first[s + 1]):
            total += partial[number]
        out[s] = total


@kernel
def regularised(gradient: Any, parameter: Any, decay: Any, l1: bool) -> Any:
    """See `vectorized_ops.reference.regularisation.regularised`, for one value."""
    if not l1:
        return gradient + decay * parameter
    sign = np.float32(parameter > 0) - np.float32(parameter < 0)
    return gradient + decay * (parameter if parameter != parameter else sign)  # NaN stays NaN
