"""Parameter groups on a device: what holds for a group, spread over the values of a vector."""

from __future__ import annotations

from typing import TypeAlias, final

import numpy as np
import numpy.typing as npt
import torch

from vectorized_ops.parameter_groups import Clipping, ParameterGroups

Spread: TypeAlias = float | torch.Tensor
"""A number for all values of a vector, or one for each (n,)."""


@final
class DeviceGroups:
    """The groups of a packed vector, with what an update needs of them on `device`.

    `rates` and `decays` (S,) are those of the groups. Running statistics have a decay of 0, and any
    rate.
    """

    def __init__(self, groups: ParameterGroups, clipping: Clipping, device: torch.device) -> None:
        self.device, self.size, self._clipping = device, groups.size, clipping
        ordinary, lengths = groups.ordinary, np.diff(groups.bounds)
        self._lengths = torch.from_numpy(lengths).to(device)
        each = np.repeat(np.arange(len(lengths)), lengths)
        others = np.flatnonzero(~ordinary[each])
        moving = others[groups.statistics[each[others]] != 0]
        momenta = groups.statistics[each[moving]]
        self._others, self._moving = (_on(device, rows) for rows in (others, moving))
        self._momenta = _on(device, momenta)
        first = groups.rates[ordinary][:1].sum()
        self.rates = np.where(ordinary, groups.rates, first).astype(np.float64)
        self.decays = np.where(ordinary, groups.decays, 0).astype(np.float64)
        self._decays = self.spread(self.decays)

    def begin(self, parameters: torch.Tensor, gradient: torch.Tensor) -> None:
        """Move the running statistics, and leave a gradient (n,) that is clipped, and 0 for them.

        With a gradient and a decay of 0, and state that began with 0, an update leaves a value as
        it is.
        """
        if len(self._moving):
            moved = parameters[self._moving] - self._momenta * gradient[self._moving]
            parameters[self._moving] = moved
        if len(self._others):
            gradient.index_fill_(0, self._others, 0)
        bound, norm = self._clipping.value, self._clipping.norm
        if bound != np.inf:
            gradient.clamp_(-bound, bound)
        if norm != np.inf:
            length = torch.sqrt(self.squared_norms(gradient).sum())
            factor = (norm / length).float()
            gradient *= torch.where(length > norm, factor, torch.ones_like(factor))

    def squared_norms(self, vector: torch.Tensor) -> torch.Tensor:
        """The sum of squares of each group of `vector` (n,), added in double, (S,)."""
        squares = torch.square(vector.double())
        return torch.segment_reduce(squares, "sum", lengths=self._lengths)

    def spread(self, numbers: npt.NDArray[np.float64]) -> Spread:
        """A number (S,) for each group, rounded once, as one for each value.

        One for all where they are equal.
        """
        rounded = numbers.astype(np.float32)
        if (rounded == rounded[0]).all():
            return float(rounded[0])
        return self.spread_there(_on(self.device, rounded))

    def spread_there(self, numbers: torch.Tensor) -> torch.Tensor:
        """Numbers (S,) that are on the device already, as (n,)."""
        return torch.repeat_interleave(numbers, self._lengths, output_size=self.size)

    def regularised(
        self, gradient: torch.Tensor, parameters: torch.Tensor, l1: bool
    ) -> torch.Tensor:
        """Return g + decay*w, or g + decay*sign(w) with `l1`, in new memory."""
        term = torch.sign(parameters) if l1 else parameters
        return gradient + self._decays * term


def _on(device: torch.device, values: npt.NDArray[np.generic]) -> torch.Tensor:
    return torch.from_numpy(values).to(device)
