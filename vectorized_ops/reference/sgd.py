"""Stochastic gradient descent with momentum and weight decay, defined."""

from __future__ import annotations

from itertools import pairwise
from typing import final

import numpy as np

from vectorized_ops.layout import AnyArray
from vectorized_ops.parameter_groups import Clipping, ParameterGroups
from vectorized_ops.reference.clipping import clipped
from vectorized_ops.reference.regularisation import regularised


@final
class SGDUpdate:
    """One step of gradient descent on a packed vector, as Caffe takes it."""

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
        self._clipping = clipping
        self._momentum = momentum
        self._nesterov = nesterov

    def __call__(
        self, parameters: AnyArray, gradient: AnyArray, velocity: AnyArray, learning_rate: float
    ) -> None:
        """Move `parameters` w and `velocity` v (n,) float32 along `gradient` (n,), once clipped.

        v' = momentum*v + rate*(g + decay*w); w' = w - v', or with Nesterov's momentum
        w' = w - ((1 + momentum)*v' - momentum*v), rate being learning_rate * rates[s]. With `l1`
        sign(w) takes the place of w behind the decay.
        Raises OperationError for vectors that the groups do not fit.
        """
        groups = self._groups
        groups.check(parameters, gradient, velocity)
        gradient = clipped(gradient, groups, self._clipping)
        rates = learning_rate * groups.rates.astype(np.float64)
        move(
            parameters, gradient, velocity, groups, rates, self._momentum, self._nesterov, self._l1
        )


def move(
    parameters: AnyArray,
    gradient: AnyArray,
    velocity: AnyArray,
    groups: ParameterGroups,
    rates: AnyArray,
    momentum: float,
    nesterov: bool,
    l1: bool = False,
) -> None:
    """Take the step of `SGDUpdate` with a learning rate for each group, float64 (S,)."""
    mu = np.float32(momentum)
    for s, (start, stop) in enumerate(pairwise(groups.bounds)):
        w, g, v = parameters[start:stop], gradient[start:stop], velocity[start:stop]
        if not groups.ordinary[s]:
            follow(w, g, groups.statistics[s])
            continue
        before = v.copy()
        v[...] = mu * before + np.float32(rates[s]) * regularised(g, w, groups.decays[s], l1)
        w -= (np.float32(1) + mu) * v - mu * before if nesterov else v


def follow(statistics: AnyArray, gradient: AnyArray, momentum: AnyArray) -> None:
    """Move running statistics: w' = w - momentum * g; with momentum 0 they stay, whatever g is."""
    if momentum != 0:
        statistics -= momentum * gradient
