"""Stochastic gradient descent with momentum and weight decay, on a device."""

from __future__ import annotations

from typing import final

import numpy as np
import torch

from vectorized_ops.device.groups import DeviceGroups, Numbers


@final
class SGDUpdate:
    """The step of `vectorized_ops.reference.sgd.SGDUpdate`, with the same roundings."""

    def __init__(
        self, groups: DeviceGroups, momentum: float, nesterov: bool, l1: bool = False
    ) -> None:
        self._groups, self._l1 = groups, l1
        self._momentum, self._nesterov = momentum, nesterov

    def numbers(self, learning_rate: float) -> Numbers:
        """The rates of a step."""
        return (self._groups.rates_at(learning_rate),)

    def __call__(
        self,
        parameters: torch.Tensor,
        gradient: torch.Tensor,
        velocity: torch.Tensor,
        rates: torch.Tensor,
    ) -> None:
        """Move `parameters` and `velocity` (n,) float32; `gradient` is overwritten."""
        groups = self._groups
        rate = groups.spread(rates)
        with groups.stepping(parameters, gradient, velocity):
            move(
                groups,
                parameters,
                gradient,
                velocity,
                rate,
                self._momentum,
                self._nesterov,
                self._l1,
            )


def move(
    groups: DeviceGroups,
    parameters: torch.Tensor,
    gradient: torch.Tensor,
    velocity: torch.Tensor,
    rate: torch.Tensor,
    momentum: float,
    nesterov: bool,
    l1: bool = False,
) -> None:
    """Take the step of a clipped gradient, with a learning rate for each value."""
    more = float(np.float32(1) + np.float32(momentum))
    if groups.launch is not None:
        vectors = parameters, gradient, velocity
        decays = groups.spread_decays
        groups.launch("sgd", vectors, rate, decays, momentum, more, nesterov=nesterov, l1=l1)
        return
    gradient = groups.regularised(gradient, parameters, l1)
    gradient *= rate
    if nesterov:
        before = momentum * velocity
        velocity.copy_(before + gradient)
        parameters -= more * velocity - before
    else:
        velocity *= momentum
        velocity += gradient
        parameters -= velocity
