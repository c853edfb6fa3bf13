"""Layer-wise adaptive rate scaling, defined."""

from __future__ import annotations

from typing import final

import numpy as np
import numpy.typing as npt

from vectorized_ops.layout import AnyArray
from vectorized_ops.parameter_groups import Clipping, ParameterGroups
from vectorized_ops.reference.clipping import clipped, squared_norms
from vectorized_ops.reference.sgd import move


@final
class LARSUpdate:
    """One step of LARS on a packed vector: every group of `groups` is a layer of its own.

    You, Gitman, Ginsburg, *Large batch training of convolutional networks*, 2017 (arXiv
    1708.03888), algorithm 1. `adapted` (S,) says which layers get a rate of their own; the others
    move as with SGD.
    """

    def __init__(
        self,
        groups: ParameterGroups,
        clipping: Clipping,
        momentum: float,
        trust_coefficient: float,
        adapted: npt.NDArray[np.bool_],
    ) -> None:
        self._groups = groups
        self._clipping = clipping
        self._momentum = momentum
        self._trust = trust_coefficient
        self._adapted = adapted

    def __call__(
        self, parameters: AnyArray, gradient: AnyArray, velocity: AnyArray, learning_rate: float
    ) -> None:
        """Move `parameters` w and `velocity` v (n,) float32 along `gradient` (n,), once clipped.

        v' = momentum*v + rate*(g + decay*w); w' = w - v'. The rate is learning_rate * rates[s],
        in an adapted layer times its trust ratio: trust_coefficient*|w| / (|g| + decay*|w|), or 1
        where a norm is 0 or not a number. Raises OperationError for vectors that the groups do
        not fit.
        """
        groups = self._groups
        groups.check(parameters, gradient, velocity)
        gradient = clipped(gradient, groups, self._clipping)
        rates = learning_rate * (self._trust_ratios(parameters, gradient) * groups.rates)
        move(parameters, gradient, velocity, groups, rates, self._momentum, nesterov=False)

    def _trust_ratios(self, parameters: AnyArray, gradient: AnyArray) -> AnyArray:
        w, g = (np.sqrt(squared_norms(each, self._groups)) for each in (parameters, gradient))
        ratios = np.ones_like(w)
        at = self._adapted & (w > 0) & (g > 0)
        ratios[at] = self._trust * w[at] / (g[at] + self._groups.decays[at] * w[at])
        return ratios
