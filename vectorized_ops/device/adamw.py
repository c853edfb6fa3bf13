"""Adam with decoupled weight decay, on a device."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import final

import numpy as np
import torch

from vectorized_ops.device.groups import DeviceGroups, Numbers


@final
class AdamWUpdate:
    """The step of `vectorized_ops.reference.adamw.AdamWUpdate`, with the same roundings."""

    def __init__(self, groups: DeviceGroups, beta1: float, beta2: float, epsilon: float) -> None:
        self._groups = groups
        self._beta1, self._beta2, self._epsilon = beta1, beta2, epsilon

    def numbers(self, step: int, learning_rate: float) -> Numbers:
        """The sizes of a step, its decays, and what corrects the root of the second moment."""
        groups, rates = self._groups, learning_rate * self._groups.rates
        same = groups.same_rates
        return (
            groups.rounded(rates / (1 - self._beta1**step), same),
            groups.rounded(rates * groups.decays, same and groups.same_decays),
            np.array([1 / math.sqrt(1 - self._beta2**step)], np.float32),
        )

    def __call__(
        self,
        parameters: torch.Tensor,
        gradient: torch.Tensor,
        first: torch.Tensor,
        second: torch.Tensor,
        sizes: torch.Tensor,
        decays: torch.Tensor,
        root: torch.Tensor,
    ) -> None:
        """Move `parameters` and the moments (n,) float32; `gradient` is overwritten."""
        groups = self._groups
        size, decay = groups.spread(sizes), groups.spread(decays)
        with groups.stepping(parameters, gradient, first, second):
            if groups.launch is not None:
                shares = shares_of(self._beta1, self._beta2)
                vectors = parameters, gradient, first, second
                groups.launch("adamw", vectors, size, decay, root, *shares, self._epsilon)
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
