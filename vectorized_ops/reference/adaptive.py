"""Optimizers that divide by the size of past gradients, defined: AdaGrad, RMSProp and kin.

All are in Caffe's form, and called alike: with parameters w and gradient g (n,), the state (k, n),
the number of the step, 1 for the first, and the learning rate. g is clipped, and then regularised:
g + decay*w, or g + decay*sign(w) with `l1`. r is learning_rate * rates[s] of the group s.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import numpy as np

from vectorized_ops.layout import AnyArray
from vectorized_ops.parameter_groups import Clipping, ParameterGroups
from vectorized_ops.reference.clipping import clipped
from vectorized_ops.reference.regularisation import regularised
from vectorized_ops.reference.sgd import follow


@final
@dataclass(frozen=True, slots=True, eq=False)
class AdaGradUpdate:
    """h' = h + g*g; w' = w - r*g / (sqrt(h') + epsilon). The state is h.

    Duchi, Hazan, Singer, *Adaptive subgradient methods for online learning and stochastic
    optimization*, JMLR 2011.
    """

    groups: ParameterGroups
    clipping: Clipping
    l1: bool
    epsilon: float

    def __call__(
        self,
        parameters: AnyArray,
        gradient: AnyArray,
        state: AnyArray,
        _step: int,
        learning_rate: float,
    ) -> None:
        """Move `parameters` and `state` (1, n)."""
        epsilon = np.float32(self.epsilon)
        for w, g, (h,), rate in _groups(self, parameters, gradient, state, learning_rate):
            h += g * g
            w -= np.float32(rate) * g / (np.sqrt(h) + epsilon)


@final
@dataclass(frozen=True, slots=True, eq=False)
class RMSPropUpdate:
    """h' = rho*h + (1 - rho)*g*g; w' = w - r*g / (sqrt(h') + epsilon). The state is h.

    Tieleman, Hinton, *Neural networks for machine learning*, lecture 6.5, 2012.
    """

    groups: ParameterGroups
    clipping: Clipping
    l1: bool
    rho: float
    epsilon: float

    def __call__(
        self,
        parameters: AnyArray,
        gradient: AnyArray,
        state: AnyArray,
        _step: int,
        learning_rate: float,
    ) -> None:
        """Move `parameters` and `state` (1, n)."""
        keep, take = np.float32(self.rho), np.float32(1 - self.rho)
        epsilon = np.float32(self.epsilon)
        for w, g, (h,), rate in _groups(self, parameters, gradient, state, learning_rate):
            h[...] = keep * h + take * (g * g)
            w -= np.float32(rate) * g / (np.sqrt(h) + epsilon)


@final
@dataclass(frozen=True, slots=True, eq=False)
class AdaDeltaUpdate:
    """h' = rho*h + (1 - rho)*g*g; d = g * sqrt((H + epsilon) / (h' + epsilon)); w' = w - r*d.

    H' = rho*H + (1 - rho)*d*d. The state is h and H. Zeiler, *ADADELTA: an adaptive learning rate
    method*, 2012 (arXiv 1212.5701), algorithm 1, which has r = 1.
    """

    groups: ParameterGroups
    clipping: Clipping
    l1: bool
    rho: float
    epsilon: float

    def __call__(
        self,
        parameters: AnyArray,
        gradient: AnyArray,
        state: AnyArray,
        _step: int,
        learning_rate: float,
    ) -> None:
        """Move `parameters` and `state` (2, n)."""
        keep, take = np.float32(self.rho), np.float32(1 - self.rho)
        epsilon = np.float32(self.epsilon)
        for w, g, (h, moved), rate in _groups(self, parameters, gradient, state, learning_rate):
            h[...] = keep * h + take * (g * g)
            d = g * np.sqrt((moved + epsilon) / (h + epsilon))
            moved[...] = keep * moved + take * (d * d)
            w -= np.float32(rate) * d


@final
@dataclass(frozen=True, slots=True, eq=False)
class AdamUpdate:
    """m' = beta1*m + (1 - beta1)*g; v' = beta2*v + (1 - beta2)*g*g. The state is m and v.

    In step t w' = w - r * sqrt(1 - beta2**t) / (1 - beta1**t) * m' / (sqrt(v') + epsilon). Kingma,
    Ba, *Adam: a method for stochastic optimization*, ICLR 2015: algorithm 1 in the order of its
    section 2, where epsilon is outside of the bias correction.
    """

    groups: ParameterGroups
    clipping: Clipping
    l1: bool
    beta1: float
    beta2: float
    epsilon: float

    def __call__(
        self,
        parameters: AnyArray,
        gradient: AnyArray,
        state: AnyArray,
        step: int,
        learning_rate: float,
    ) -> None:
        """Move `parameters` and `state` (2, n)."""
        keep1, take1 = np.float32(self.beta1), np.float32(1 - self.beta1)
        keep2, take2 = np.float32(self.beta2), np.float32(1 - self.beta2)
        epsilon = np.float32(self.epsilon)
        corrected = learning_rate * math.sqrt(1 - self.beta2**step) / (1 - self.beta1**step)
        for w, g, (m, v), rate in _groups(self, parameters, gradient, state, corrected):
            m[...] = keep1 * m + take1 * g
            v[...] = keep2 * v + take2 * (g * g)
            w -= np.float32(rate) * m / (np.sqrt(v) + epsilon)


def _groups(
    update: AdaGradUpdate | RMSPropUpdate | AdaDeltaUpdate | AdamUpdate,
    parameters: AnyArray,
    gradient: AnyArray,
    state: AnyArray,
    learning_rate: float,
) -> Iterator[tuple[AnyArray, AnyArray, AnyArray, float]]:
    """Return w, g, the state and r of each group; move statistics.

    Raises OperationError for vectors that the groups do not fit.
    """
    groups = update.groups
    groups.check(parameters, gradient, *state)
    gradient = clipped(gradient, groups, update.clipping)
    for s, (start, stop) in enumerate(pairwise(groups.bounds)):
        w, g = parameters[start:stop], gradient[start:stop]
        if not groups.ordinary[s]:
            follow(w, g, groups.statistics[s])
            continue
        g = regularised(g, w, groups.decays[s], update.l1)
        yield w, g, state[:, start:stop], learning_rate * float(groups.rates[s])
