"""Adam with decoupled weight decay, one pass over the packed vectors."""

from __future__ import annotations

import math
from typing import Any, final

import numba
import numpy as np

from vectorized_ops.layout import AnyArray
from vectorized_ops.numba.clipping import GradientScale, within
from vectorized_ops.numba.compiling.compiler import kernel, parallel_kernel
from vectorized_ops.numba.emit.threads import part
from vectorized_ops.numba.sgd import LINE, follow, segment_of
from vectorized_ops.parameter_groups import Clipping, ParameterGroups


@final
class AdamWUpdate:
    """See `vectorized_ops.reference.adamw.AdamWUpdate`: 4 reads and 3 writes per value.

    A clipping norm costs one more read of the gradient.
    """

    def __init__(
        self,
        groups: ParameterGroups,
        clipping: Clipping,
        beta1: float,
        beta2: float,
        epsilon: float,
    ) -> None:
        self._groups = groups
        self._scale = GradientScale(groups, clipping)
        self._bound = np.float32(clipping.value)
        self._beta1, self._beta2 = beta1, beta2
        self._shares = tuple(map(np.float32, (beta1, 1 - beta1, beta2, 1 - beta2)))
        self._epsilon = np.float32(epsilon)

    def __call__(
        self,
        parameters: AnyArray,
        gradient: AnyArray,
        first: AnyArray,
        second: AnyArray,
        step: int,
        learning_rate: float,
    ) -> None:
        """Move `parameters` and both moments."""
        groups = self._groups
        groups.check(parameters, gradient, first, second)
        _move(
            parameters, gradient, first, second,
            groups.bounds, groups.rates, groups.decays, groups.statistics,
            float(learning_rate), 1 - self._beta1**step,
            np.float32(1 / math.sqrt(1 - self._beta2**step)), self._shares, self._epsilon,
            np.float32(self._scale.of(gradient)), self._bound, numba.get_num_threads(),
        )  # fmt: skip


@parallel_kernel
def _move(
    parameters: Any,
    gradient: Any,
    first: Any,
    second: Any,
    bounds: Any,
    rates: Any,
    decays: Any,
    statistics: Any,
    learning_rate: float,
    correction: float,
    root: Any,
    shares: Any,
    epsilon: Any,
    scale: Any,
    bound: Any,
    threads: int,
) -> None:
    size = len(parameters)
    lines = (size + LINE - 1) // LINE
    for thread in numba.prange(threads):
        start = part(lines, thread, threads) * LINE
        end = min(part(lines, thread + 1, threads) * LINE, size)
        s = segment_of(start, bounds)
        while start < end:
            stop = min(bounds[s + 1], end)
            w, g = parameters[start:stop], gradient[start:stop]
            if math.isnan(statistics[s]):
                rate = learning_rate * rates[s]
                _descend(
                    w, g, first[start:stop], second[start:stop], np.float32(rate / correction),
                    np.float32(rate * decays[s]), root, shares, epsilon, scale, bound,
                )  # fmt: skip
            else:
                follow(w, g, statistics[s])
            start = stop
            s += 1


@kernel
def _descend(
    parameters: Any,
    gradient: Any,
    first: Any,
    second: Any,
    rate: Any,
    decay: Any,
    root: Any,
    shares: Any,
    epsilon: Any,
    scale: Any,
    bound: Any,
) -> None:
    keep1, take1, keep2, take2 = shares
    for i in range(len(parameters)):
        clipped = scale * within(gradient[i], bound)
        m = keep1 * first[i] + take1 * clipped
        v = keep2 * second[i] + take2 * (clipped * clipped)
        first[i] = m
        second[i] = v
        w = parameters[i]
        parameters[i] = w - (rate * m / (np.sqrt(v) * root + epsilon) + decay * w)
