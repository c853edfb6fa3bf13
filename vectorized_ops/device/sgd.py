"""Stochastic gradient descent with momentum and weight decay, on a device."""

from __future__ import annotations

from typing import final

import numpy as np
import torch

from vectorized_ops.device.groups import DeviceGroups, Spread


@final
class SGDUpdate:
    """The step of `vectorized_ops.reference.sgd.SGDUpdate`, with the same roundings."""

    def __init__(
        self, groups: DeviceGroups, momentum: float, nesterov: bool, l1: bool = False
    ) -> None:
        self._groups, self._l1 = groups, l1
        self._momentum, self._nesterov = momentum, nesterov

    def __call__(
        self,
        parameters: torch.Tensor,
        gradient: torch.Tensor,
        velocity: torch.Tensor,
        learning_rate: float,
    ) -> None:
        """Move `parameters` and `velocity` (n,) float32; `gradient` is overwritten."""
        groups = self._groups
        rate = groups.spread(learning_rate * groups.rates)
        with groups.stepping(parameters, gradient, velocity):
            step = groups.regularised(gradient, parameters, self._l1)
            move(parameters, step, velocity, rate, self._momentum, self._nesterov)


def move(
    parameters: torch.Tensor,
    gradient: torch.Tensor,
    velocity: torch.Tensor,
    rate: Spread,
    momentum: float,
    nesterov: bool,
) -> None:
    """Take the step of a gradient that is regularised, and overwritten."""
    gradient *= rate
    if nesterov:
        before = momentum * velocity
        velocity.copy_(before + gradient)
        parameters -= _rounded(1 + _rounded(momentum)) * velocity - before
    else:
        velocity *= momentum
        velocity += gradient
        parameters -= velocity


def _rounded(value: float) -> float:
    """The float32 next to a number."""
    return float(np.float32(value))
