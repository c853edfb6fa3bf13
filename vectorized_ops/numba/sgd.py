"""Stochastic gradient descent with momentum and weight decay, one pass over the packed vectors."""

from __future__ import annotations

import math
from typing import Any, final

import numba
import numpy as np

from vectorized_ops.layout import AnyArray
from vectorized_ops.numba.clipping import GradientScale, regularised, within
from vectorized_ops.numba.compiling.compiler import kernel, parallel_kernel
from vectorized_ops.numba.emit.threads import part
from vectorized_ops.parameter_groups import Clipping, ParameterGroups

LINE = 16
"""Values of a cache line: threads share vectors line by line."""


@final
class SGDUpdate:
    """See `vectorized_ops.reference.sgd.SGDUpdate`: 3 reads and 2 writes per value.

    A clipping norm costs one more read of the gradient.
    """

    def __init__(
        self,
        groups: ParameterGroups,
        clipping: Clipping,
        momentum: float,
        nesterov: bool,
        l1: bool = False,
    ) -> None:
        self._groups = groups
        self._l1 = l1
        self._scale = GradientScale(groups, clipping)
        self._bound = clipping.value
        self._momentum = momentum
        self._nesterov = nesterov

    def __call__(
        self, parameters: AnyArray, gradient: AnyArray, velocity: AnyArray, learning_rate: float
    ) -> None:
        """Move `parameters` and `velocity`."""
        groups = self._groups
        groups.check(parameters, gradient, velocity)
        move(
            parameters, gradient, velocity, groups, groups.rates, learning_rate,
            self._momentum, self._nesterov, self._scale.of(gradient), self._bound, self._l1,
        )  # fmt: skip


def move(
    parameters: AnyArray,
    gradient: AnyArray,
    velocity: AnyArray,
    groups: ParameterGroups,
    rates: AnyArray,
    learning_rate: float,
    momentum: float,
    nesterov: bool,
    scale: float,
    bound: float,
    l1: bool = False,
) -> None:
    """Take the step of `SGDUpdate` with `rates` float32 (S,) in place of those of `groups`.

    The gradient is brought into ±bound and multiplied by `scale` on the way. With one thread (see
    `alone`) the calling one does it, which may then be any, beside others that compute.
    """
    threads = numba.get_num_threads()
    which = _move_share if threads == 1 else _move
    which(
        parameters, gradient, velocity,
        groups.bounds, rates, groups.decays, groups.statistics, float(learning_rate),
        np.float32(momentum), nesterov, np.float32(scale), np.float32(bound), l1, 0, threads,
    )  # fmt: skip


@kernel
def _move_share(
    parameters: Any,
    gradient: Any,
    velocity: Any,
    bounds: Any,
    rates: Any,
    decays: Any,
    statistics: Any,
    learning_rate: float,
    momentum: Any,
    nesterov: bool,
    scale: Any,
    bound: Any,
    l1: bool,
    thread: int,
    threads: int,
) -> None:
    size = len(parameters)
    lines = (size + LINE - 1) // LINE
    start = part(lines, thread, threads) * LINE
    end = min(part(lines, thread + 1, threads) * LINE, size)
    s = segment_of(start, bounds)
    while start < end:
        stop = min(bounds[s + 1], end)
        w, g, v = parameters[start:stop], gradient[start:stop], velocity[start:stop]
        if math.isnan(statistics[s]):
            rate = np.float32(learning_rate * rates[s])
            _descend(w, g, v, rate, decays[s], momentum, nesterov, scale, bound, l1)
        else:
            follow(w, g, statistics[s])
        start = stop
        s += 1


@parallel_kernel
def _move(
    parameters: Any,
    gradient: Any,
    velocity: Any,
    bounds: Any,
    rates: Any,
    decays: Any,
    statistics: Any,
    learning_rate: float,
    momentum: Any,
    nesterov: bool,
    scale: Any,
    bound: Any,
    l1: bool,
    first: int,
    threads: int,
) -> None:
    for thread in numba.prange(first, threads):
        _move_share(
            parameters, gradient, velocity, bounds, rates, decays, statistics,
            learning_rate, momentum, nesterov, scale, bound, l1, thread, threads,
        )  # fmt: skip


@kernel
def _descend(
    parameters: Any,
    gradient: Any,
    velocity: Any,
    rate: Any,
    decay: Any,
    momentum: Any,
    nesterov: bool,
    scale: Any,
    bound: Any,
    l1: bool,
) -> None:
    for i in range(len(parameters)):
        clipped = scale * within(gradient[i], bound)
        before = velocity[i]
        after = momentum * before + rate * regularised(clipped, parameters[i], decay, l1)
        velocity[i] = after
        if nesterov:
            parameters[i] -= (np.float32(1.0) + momentum) * after - momentum * before
        else:
            parameters[i] -= after


@kernel
def segment_of(place: int, bounds: Any) -> int:
    """Return the number of the group that a place lies in; group s begins at bounds[s]."""
    low, high = 0, len(bounds)
    while high - low > 1:
        middle = (low + high) // 2
        if bounds[middle] <= place:
            low = middle
        else:
            high = middle
    return low


@kernel
def follow(statistics: Any, gradient: Any, momentum: Any) -> None:
    """Move running statistics: w' = w - momentum * g; with momentum 0 g is not read."""
    if momentum == 0:
        return
    for i in range(len(statistics)):
        statistics[i] -= momentum * gradient[i]
