"""Layer-wise adaptive rate scaling, on a device."""

from __future__ import annotations

from typing import final

import numpy as np
import numpy.typing as npt
import torch

from vectorized_ops.device.groups import DeviceGroups, Numbers
from vectorized_ops.device.sgd import move


@final
class LARSUpdate:
    """The step of `vectorized_ops.reference.lars.LARSUpdate`; norms are added in double."""

    def __init__(
        self,
        groups: DeviceGroups,
        momentum: float,
        trust_coefficient: float,
        adapted: npt.NDArray[np.bool_],
    ) -> None:
        self._groups, self._momentum, self._trust = groups, momentum, trust_coefficient
        of_groups = (adapted, groups.rates, groups.decays)
        found = (torch.from_numpy(each).to(groups.device) for each in of_groups)
        self._adapted, self._rates, self._decays = found

    def numbers(self, learning_rate: float) -> Numbers:
        """The learning rate of a step."""
        return (np.array([learning_rate], np.float64),)

    def __call__(
        self,
        parameters: torch.Tensor,
        gradient: torch.Tensor,
        velocity: torch.Tensor,
        learning_rate: torch.Tensor,
    ) -> None:
        """Move `parameters` and `velocity` (n,) float32; `gradient` is overwritten."""
        groups = self._groups
        with groups.stepping(parameters, gradient, velocity):
            w, g = (torch.sqrt(groups.squared_norms(each)) for each in (parameters, gradient))
            ratio = self._trust * w / (g + self._decays * w)
            ratio = torch.where(self._adapted & (w > 0) & (g > 0), ratio, torch.ones_like(ratio))
            rate = groups.spread((learning_rate * (ratio * self._rates)).float())
            move(groups, parameters, gradient, velocity, rate, self._momentum, nesterov=False)
