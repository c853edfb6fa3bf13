"""Adam with decoupled weight decay, defined."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import final

import numpy as np

from vectorized_ops.layout import AnyArray
from vectorized_ops.parameter_groups import Clipping, ParameterGroups
from vectorized_ops.reference.clipping import clipped
from vectorized_ops.reference.sgd import follow


@final
class AdamWUpdate:
    """One step of AdamW on a packed vector.

    Loshchilov, Hutter, *Decoupled weight decay regularization*, ICLR 2019, algorithm 2, with the
    decay multiplied by the learning rate, as PyTorch does.
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
        self._clipping = clipping
        self._beta1, self._beta2 = beta1, beta2
        self._epsilon = epsilon

    def __call__(
        self,
        parameters: AnyArray,
        gradient: AnyArray,
        first: AnyArray,
        second: AnyArray,
        step: int,
        learning_rate: float,
    ) -> None:
        """Move `parameters` w and the moments m and v (n,) float32 along `gradient`, once clipped.

        m' = beta1*m + (1 - beta1)*g; v' = beta2*v + (1 - beta2)*g*g; w' = w - (rate * m^ /
        (sqrt(v^) + epsilon) + rate*decay*w) with m^ = m'/(1 - beta1**step), v^ =
        v'/(1 - beta2**step) and rate = learning_rate * rates[s]. `step` is 1 for the first.
        Raises OperationError for vectors that the groups do not fit.
        """
        groups = self._groups
        groups.check(parameters, gradient, first, second)
        gradient = clipped(gradient, groups, self._clipping)
        keep1, take1 = np.float32(self._beta1), np.float32(1 - self._beta1)
        keep2, take2 = np.float32(self._beta2), np.float32(1 - self._beta2)
        root = np.float32(1 / math.sqrt(1 - self._beta2**step))
        for s, (start, stop) in enumerate(pairwise(groups.bounds)):
            at = slice(start, stop)
            w, g, m, v = parameters[at], gradient[at], first[at], second[at]
            if not groups.ordinary[s]:
                follow(w, g, groups.statistics[s])
                continue
            m[...] = keep1 * m + take1 * g
            v[...] = keep2 * v + take2 * (g * g)
            rate = learning_rate * float(groups.rates[s])
            size = np.float32(rate / (1 - self._beta1**step))
            decay = np.float32(rate * float(groups.decays[s]))
            w -= size * m / (np.sqrt(v) * root + np.float32(self._epsilon)) + decay * w
