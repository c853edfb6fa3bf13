"""AdaGrad, RMSProp, AdaDelta and Adam, each one pass over the packed vectors.

See `vectorized_ops.reference.adaptive`. A vector of the state costs a read and a write per value,
the parameters another, and the gradient a read; one more read with a clipping norm.
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Callable
from typing import Any, final

import numba
import numpy as np

from vectorized_ops.layout import AnyArray
from vectorized_ops.numba.clipping import GradientScale, regularised, within
from vectorized_ops.numba.compiling.compiler import kernel, parallel_kernel
from vectorized_ops.numba.emit.threads import part
from vectorized_ops.numba.sgd import LINE, follow, segment_of
from vectorized_ops.parameter_groups import Clipping, ParameterGroups


class _Update(ABC):  # noqa: B024  (an update is one of a rule)
    """The base of updates: one pass of a rule's kernel, see `_moving`, with the rule's numbers."""

    def __init__(
        self,
        move: Callable[..., None],
        groups: ParameterGroups,
        clipping: Clipping,
        l1: bool,
        numbers: tuple[float, ...],
    ) -> None:
        self._move, self._groups, self._l1 = move, groups, l1
        self._scale = GradientScale(groups, clipping)
        self._bound = np.float32(clipping.value)
        self._numbers = tuple(map(np.float32, numbers))

    def __call__(
        self,
        parameters: AnyArray,
        gradient: AnyArray,
        state: AnyArray,
        step: int,
        learning_rate: float,
    ) -> None:
        """Move `parameters` (n,) and `state` (k, n); `step` is 1 for the first."""
        groups = self._groups
        groups.check(parameters, gradient, *state)
        self._move(
            parameters, gradient, state[0], state[-1],
            groups.bounds, groups.rates, groups.decays, groups.statistics,
            self._rate(step, learning_rate),
            self._numbers, self._l1, np.float32(self._scale.of(gradient)), self._bound,
            numba.get_num_threads(),
        )  # fmt: skip

    def _rate(self, step: int, learning_rate: float) -> float:  # noqa: ARG002
        """Return the learning rate of a step, corrected if the rule does."""
        return float(learning_rate)


@final
class AdaGradUpdate(_Update):
    """See `vectorized_ops.reference.adaptive.AdaGradUpdate`."""

    def __init__(
        self, groups: ParameterGroups, clipping: Clipping, l1: bool, epsilon: float
    ) -> None:
        super().__init__(_move_adagrad, groups, clipping, l1, (epsilon,))


@final
class RMSPropUpdate(_Update):
    """See `vectorized_ops.reference.adaptive.RMSPropUpdate`."""

    def __init__(
        self, groups: ParameterGroups, clipping: Clipping, l1: bool, rho: float, epsilon: float
    ) -> None:
        super().__init__(_move_rmsprop, groups, clipping, l1, (rho, 1 - rho, epsilon))


@final
class AdaDeltaUpdate(_Update):
    """See `vectorized_ops.reference.adaptive.AdaDeltaUpdate`."""

    def __init__(
        self, groups: ParameterGroups, clipping: Clipping, l1: bool, rho: float, epsilon: float
    ) -> None:
        super().__init__(_move_adadelta, groups, clipping, l1, (rho, 1 - rho, epsilon))


@final
class AdamUpdate(_Update):
    """See `vectorized_ops.reference.adaptive.AdamUpdate`."""

    def __init__(
        self,
        groups: ParameterGroups,
        clipping: Clipping,
        l1: bool,
        beta1: float,
        beta2: float,
        epsilon: float,
    ) -> None:
        numbers = beta1, 1 - beta1, beta2, 1 - beta2, epsilon
        super().__init__(_move_adam, groups, clipping, l1, numbers)
        self._beta1, self._beta2 = beta1, beta2

    def _rate(self, step: int, learning_rate: float) -> float:
        corrected = learning_rate * math.sqrt(1 - self._beta2**step) / (1 - self._beta1**step)
        return float(corrected)


def _moving(descend: Callable[..., None]) -> Callable[..., None]:
    """Return the kernel that moves each group by `descend`, which is a kernel for one group.

    A state of one vector is given twice.
    """

    @parallel_kernel
    def move(
        parameters: Any,
        gradient: Any,
        first: Any,
        second: Any,
        bounds: Any,
        rates: Any,
        decays: Any,
        statistics: Any,
        learning_rate: float,
        numbers: Any,
        l1: bool,
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
                    descend(
                        w, g, first[start:stop], second[start:stop],
                        np.float32(learning_rate * rates[s]), decays[s],
                        numbers, l1, scale, bound,
                    )  # fmt: skip
                else:
                    follow(w, g, statistics[s])
                start = stop
                s += 1

    return move


@kernel
def _adagrad(
    parameters: Any,
    gradient: Any,
    squares: Any,
    _: Any,
    rate: Any,
    decay: Any,
    numbers: Any,
    l1: bool,
    scale: Any,
    bound: Any,
) -> None:
    (epsilon,) = numbers
    for i in range(len(parameters)):
        w = parameters[i]
        g = regularised(scale * within(gradient[i], bound), w, decay, l1)
        h = squares[i] + g * g
        squares[i] = h
        parameters[i] = w - rate * g / (np.sqrt(h) + epsilon)


@kernel
def _rmsprop(
    parameters: Any,
    gradient: Any,
    squares: Any,
    _: Any,
    rate: Any,
    decay: Any,
    numbers: Any,
    l1: bool,
    scale: Any,
    bound: Any,
) -> None:
    keep, take, epsilon = numbers
    for i in range(len(parameters)):
        w = parameters[i]
        g = regularised(scale * within(gradient[i], bound), w, decay, l1)
        h = keep * squares[i] + take * (g * g)
        squares[i] = h
        parameters[i] = w - rate * g / (np.sqrt(h) + epsilon)


@kernel
def _adadelta(
    parameters: Any,
    gradient: Any,
    squares: Any,
    moves: Any,
    rate: Any,
    decay: Any,
    numbers: Any,
    l1: bool,
    scale: Any,
    bound: Any,
) -> None:
    keep, take, epsilon = numbers
    for i in range(len(parameters)):
        w, before = parameters[i], moves[i]
        g = regularised(scale * within(gradient[i], bound), w, decay, l1)
        h = keep * squares[i] + take * (g * g)
        d = g * np.sqrt((before + epsilon) / (h + epsilon))
        squares[i] = h
        moves[i] = keep * before + take * (d * d)
        parameters[i] = w - rate * d


@kernel
def _adam(
    parameters: Any,
    gradient: Any,
    first: Any,
    second: Any,
    rate: Any,
    decay: Any,
    numbers: Any,
    l1: bool,
    scale: Any,
    bound: Any,
) -> None:
    keep1, take1, keep2, take2, epsilon = numbers
    for i in range(len(parameters)):
        w = parameters[i]
        g = regularised(scale * within(gradient[i], bound), w, decay, l1)
        m = keep1 * first[i] + take1 * g
        v = keep2 * second[i] + take2 * (g * g)
        first[i] = m
        second[i] = v
        parameters[i] = w - rate * m / (np.sqrt(v) + epsilon)


_move_adagrad = _moving(_adagrad)
_move_rmsprop = _moving(_rmsprop)
_move_adadelta = _moving(_adadelta)
_move_adam = _moving(_adam)
