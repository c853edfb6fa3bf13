"""Optimizers that divide by the size of past gradients, on a device: AdaGrad, RMSProp and kin.

The steps of `vectorized_ops.reference.adaptive`, with the same roundings. All are called with
parameters and gradient (n,), which is overwritten, the state (k, n), and their `numbers`, which
come of the number of the step, 1 for the first, and the learning rate.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np
import torch

from vectorized_ops.device.adamw import keep, shares_of
from vectorized_ops.device.groups import DeviceGroups, Numbers


@dataclass(frozen=True, slots=True, eq=False)
class _Update(ABC):
    groups: DeviceGroups
    l1: bool

    def numbers(self, step: int, learning_rate: float) -> Numbers:
        """The rates of a step."""
        return (self.groups.rates_at(self._corrected(learning_rate, step)),)

    def __call__(
        self,
        parameters: torch.Tensor,
        gradient: torch.Tensor,
        state: torch.Tensor,
        rates: torch.Tensor,
    ) -> None:
        """Move `parameters` (n,) and `state` (k, n)."""
        groups = self.groups
        rate = groups.spread(rates)
        with groups.stepping(parameters, gradient, state):
            if groups.launch is not None:
                kernel, numbers = self._fused()
                vectors, decays = (parameters, gradient, *state), groups.spread_decays
                groups.launch(kernel, vectors, rate, decays, *numbers, l1=self.l1)
                return
            g = groups.regularised(gradient, parameters, self.l1)
            parameters -= self._step(g, state, rate)

    def _corrected(self, learning_rate: float, _step: int) -> float:
        return learning_rate

    @abstractmethod
    def _fused(self) -> tuple[str, tuple[float, ...]]:
        """The kernel of `vectorized_ops.device.fused`, and its numbers."""

    @abstractmethod
    def _step(self, g: torch.Tensor, state: torch.Tensor, rate: torch.Tensor) -> torch.Tensor:
        """Move the state by a gradient that is regularised; return what parameters lose."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class AdaGradUpdate(_Update):
    """The state is the sum of squares."""

    epsilon: float

    def _fused(self) -> tuple[str, tuple[float, ...]]:
        return "squares", (1.0, 1.0, self.epsilon)

    def _step(self, g: torch.Tensor, state: torch.Tensor, rate: torch.Tensor) -> torch.Tensor:
        (h,) = state
        h += g * g
        return rate * g / (torch.sqrt(h) + _rounded(self.epsilon))


@final
@dataclass(frozen=True, slots=True, eq=False)
class RMSPropUpdate(_Update):
    """The state is the moving average of squares."""

    rho: float
    epsilon: float

    def _fused(self) -> tuple[str, tuple[float, ...]]:
        return "squares", (*shares_of(self.rho), self.epsilon)

    def _step(self, g: torch.Tensor, state: torch.Tensor, rate: torch.Tensor) -> torch.Tensor:
        (h,) = state
        keep(h, self.rho, g * g)
        return rate * g / (torch.sqrt(h) + _rounded(self.epsilon))


@final
@dataclass(frozen=True, slots=True, eq=False)
class AdaDeltaUpdate(_Update):
    """The state is the moving averages of squares, of gradients and of steps."""

    rho: float
    epsilon: float

    def _fused(self) -> tuple[str, tuple[float, ...]]:
        return "adadelta", (*shares_of(self.rho), self.epsilon)

    def _step(self, g: torch.Tensor, state: torch.Tensor, rate: torch.Tensor) -> torch.Tensor:
        h, moved = state
        epsilon = _rounded(self.epsilon)
        keep(h, self.rho, g * g)
        d = g * torch.sqrt((moved + epsilon) / (h + epsilon))
        keep(moved, self.rho, d * d)
        return rate * d


@final
@dataclass(frozen=True, slots=True, eq=False)
class AdamUpdate(_Update):
    """The state is the moving averages of gradients and of their squares."""

    beta1: float
    beta2: float
    epsilon: float

    def _fused(self) -> tuple[str, tuple[float, ...]]:
        return "adam", (*shares_of(self.beta1, self.beta2), self.epsilon)

    def _corrected(self, learning_rate: float, step: int) -> float:
        return float(learning_rate * math.sqrt(1 - self.beta2**step) / (1 - self.beta1**step))

    def _step(self, g: torch.Tensor, state: torch.Tensor, rate: torch.Tensor) -> torch.Tensor:
        m, v = state
        keep(m, self.beta1, g)
        keep(v, self.beta2, g * g)
        moved: torch.Tensor = rate * m / (torch.sqrt(v) + _rounded(self.epsilon))
        return moved


def _rounded(value: float) -> float:
    return float(np.float32(value))
