"""Adam with decoupled weight decay, on a device."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import final

import numpy as np
import torch

from vectorized_ops.device.groups import DeviceGroups


@final
class AdamWUpdate:
    """The step of `vectorized_ops.reference.adamw.AdamWUpdate`, with the same roundings."""

    def __init__(self, groups: DeviceGroups, beta1: float, beta2: float, epsilon: float) -> None:
        self._groups = groups
        self._beta1, self._beta2, self._epsilon = beta1, beta2, epsilon

    def __call__(
        self,
        parameters: torch.Tensor,
        gradient: torch.Tensor,
        first: torch.Tensor,
        second: torch.Tensor,
        step: int,
        learning_rate: float,
    ) -> None:
        """Move `parameters` and the moments (n,) float32; `gradient` is overwritten."""
        groups = self._groups
        rates = learning_rate * groups.rates
        same = groups.same_rates
        size = groups.spread(rates / (1 - self._beta1**step), same)
        decay = groups.spread(rates * groups.decays, same and groups.same_decays)
        root = float(np.float32(1 / math.sqrt(1 - self._beta2**step)))
        with groups.stepping(parameters, gradient, first, second):
            if groups.launch is not None:
                shares = shares_of(self._beta1, self._beta2)
                vectors = parameters, gradient, first, second
                groups.launch("adamw", vectors, size, decay, *shares, root, self._epsilon)
                return
            keep(first, self._beta1, gradient)
            keep(second, self._beta2, gradient * gradient)
            divisor = torch.sqrt(second) * root + float(np.float32(self._epsilon))
            parameters -= size * first / divisor + decay * parameters


def shares_of(*averages: float) -> Iterator[float]:
    """The share that each average keeps, and the one that it takes, rounded."""
    for share in averages:
        yield from (float(np.float32(share)), float(np.float32(1 - share)))


def keep(average: torch.Tensor, share: float, values: torch.Tensor) -> None:
    """Let a moving average (n,) keep a share of itself, and take the rest of the values."""
    kept, taken = shares_of(share)
    average *= kept
    average += taken * values
