"""Optimizers that divide by the size of past gradients, on a device: AdaGrad, RMSProp and kin.

The steps of `vectorized_ops.reference.adaptive`, with the same roundings. All are called with
parameters and gradient (n,), which is overwritten, the state (k, n), the number of the step, 1 for
the first, and the learning rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
import torch

from vectorized_ops.device.adamw import keep
from vectorized_ops.device.groups import DeviceGroups, Spread


@dataclass(frozen=True, slots=True, eq=False)
class _Update:
    groups: DeviceGroups
    l1: bool

    def _begin(self, parameters: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        self.groups.begin(parameters, gradient)
        return self.groups.regularised(gradient, parameters, self.l1)

    def _rate(self, learning_rate: float) -> Spread:
        return self.groups.spread(learning_rate * self.groups.rates)


@final
@dataclass(frozen=True, slots=True, eq=False)
class AdaGradUpdate(_Update):
    """The state is the sum of squares."""

    epsilon: float

    def __call__(
        self,
        parameters: torch.Tensor,
        gradient: torch.Tensor,
        state: torch.Tensor,
        _step: int,
        learning_rate: float,
    ) -> None:
        """Move `parameters` and `state` (1, n)."""
        g, (h,) = self._begin(parameters, gradient), state
        h += g * g
        rate = self._rate(learning_rate)
        parameters -= rate * g / (torch.sqrt(h) + _rounded(self.epsilon))


@final
@dataclass(frozen=True, slots=True, eq=False)
class RMSPropUpdate(_Update):
    """The state is the moving average of squares."""

    rho: float
    epsilon: float

    def __call__(
        self,
        parameters: torch.Tensor,
        gradient: torch.Tensor,
        state: torch.Tensor,
        _step: int,
        learning_rate: float,
    ) -> None:
        """Move `parameters` and `state` (1, n)."""
        g, (h,) = self._begin(parameters, gradient), state
        keep(h, self.rho, g * g)
        rate = self._rate(learning_rate)
        parameters -= rate * g / (torch.sqrt(h) + _rounded(self.epsilon))


@final
@dataclass(frozen=True, slots=True, eq=False)
class AdaDeltaUpdate(_Update):
    """The state is the moving averages of squares, of gradients and of steps."""

    rho: float
    epsilon: float

    def __call__(
        self,
        parameters: torch.Tensor,
        gradient: torch.Tensor,
        state: torch.Tensor,
        _step: int,
        learning_rate: float,
    ) -> None:
        """Move `parameters` and `state` (2, n)."""
        g, (h, moved) = self._begin(parameters, gradient), state
        epsilon = _rounded(self.epsilon)
        keep(h, self.rho, g * g)
        d = g * torch.sqrt((moved + epsilon) / (h + epsilon))
        keep(moved, self.rho, d * d)
        parameters -= self._rate(learning_rate) * d


@final
@dataclass(frozen=True, slots=True, eq=False)
class AdamUpdate(_Update):
    """The state is the moving averages of gradients and of their squares."""

    beta1: float
    beta2: float
    epsilon: float

    def __call__(
        self,
        parameters: torch.Tensor,
        gradient: torch.Tensor,
        state: torch.Tensor,
        step: int,
        learning_rate: float,
    ) -> None:
        """Move `parameters` and `state` (2, n)."""
        g, (m, v) = self._begin(parameters, gradient), state
        keep(m, self.beta1, g)
        keep(v, self.beta2, g * g)
        corrected = learning_rate * math.sqrt(1 - self.beta2**step) / (1 - self.beta1**step)
        rate = self._rate(corrected)
        parameters -= rate * m / (torch.sqrt(v) + _rounded(self.epsilon))


def _rounded(value: float) -> float:
    return float(np.float32(value))
