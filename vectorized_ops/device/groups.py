"""Parameter groups on a device: what holds for a group, spread over the values of a vector."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TypeAlias, final

import numpy as np
import numpy.typing as npt
import torch

from vectorized_ops.parameter_groups import Clipping, ParameterGroups

Numbers: TypeAlias = tuple[npt.NDArray[np.generic], ...]
"""What an update takes that changes from step to step; it is given them as tensors there.

Those of groups are one for each (S,), or one for all (1,).
"""


@final
class DeviceGroups:
    """The groups of a packed vector, with what an update needs of them on `device`.

    `rates` and `decays` (S,) are those of the groups. `launch` runs fused kernels, where there are
    any; without them updates are PyTorch's operations.
    """

    def __init__(self, groups: ParameterGroups, clipping: Clipping, device: torch.device) -> None:
        self.device, self.size, self._clipping = device, groups.size, clipping
        self.launch = fused_kernels(device)
        ordinary, lengths = groups.ordinary, np.diff(groups.bounds)
        self._lengths = torch.from_numpy(lengths).to(device)
        each = np.repeat(np.arange(len(lengths)), lengths)
        others = np.flatnonzero(~ordinary[each])
        moving = others[groups.statistics[each[others]] != 0]
        momenta = groups.statistics[each[moving]]
        self._others, self._moving = (_on(device, rows) for rows in (others, moving))
        self._momenta = _on(device, momenta)
        self.rates = groups.rates.astype(np.float64)
        self.decays = groups.decays.astype(np.float64)
        own = np.flatnonzero(ordinary)
        self._first = int(own[0]) if own.size else 0
        self.same_rates, self.same_decays = (
            bool((each[own] == each[self._first]).all()) for each in (self.rates, self.decays)
        )
        rounded = self.rounded(self.decays, self.same_decays)
        self.spread_decays = self.spread(_on(device, rounded))

    @contextmanager
    def stepping(
        self, parameters: torch.Tensor, gradient: torch.Tensor, *states: torch.Tensor
    ) -> Iterator[None]:
        """Clip the gradient (n,), which is overwritten, for the update of the body.

        Running statistics move as they do, whatever the body does to them, their gradient and their
        part of the states (n,) or (k, n).
        """
        if not len(self._others):
            self._clip(gradient)
            yield
            return
        if len(self._moving):
            moved = parameters[self._moving] - self._momenta * gradient[self._moving]
            parameters[self._moving] = moved
        kept = [vector[..., self._others] for vector in (parameters, *states)]
        gradient.index_fill_(0, self._others, 0)
        self._clip(gradient)
        yield
        for vector, values in zip((parameters, *states), kept, strict=True):
            vector[..., self._others] = values

    def _clip(self, gradient: torch.Tensor) -> None:
        bound, norm = self._clipping.value, self._clipping.norm
        if bound != np.inf:
            gradient.clamp_(-bound, bound)
        if norm != np.inf:
            length = torch.linalg.vector_norm(gradient, dtype=torch.float64)
            factor = (norm / length).float()
            gradient *= torch.where(length > norm, factor, torch.ones_like(factor))

    def squared_norms(self, vector: torch.Tensor) -> torch.Tensor:
        """The sum of squares of each group of `vector` (n,), added in double, (S,)."""
        squares = torch.square(vector.double())
        return torch.segment_reduce(squares, "sum", lengths=self._lengths, unsafe=True)

    def rates_at(self, learning_rate: float) -> npt.NDArray[np.float32]:
        """The learning rates of the groups, or one for all where they are alike."""
        return self.rounded(learning_rate * self.rates, self.same_rates)

    def rounded(self, numbers: npt.NDArray[np.float64], are_same: bool) -> npt.NDArray[np.float32]:
        """Numbers (S,) of the groups, rounded once, (S,), or one of them for all, (1,).

        What it is does not depend on the numbers, so that kernels are compiled once.
        """
        found = numbers.astype(np.float32)
        return found[self._first : self._first + 1] if are_same else found

    def spread(self, numbers: torch.Tensor) -> torch.Tensor:
        """Numbers of groups on the device as one for each value (n,); one for all stays it."""
        if numbers.numel() == 1:
            return numbers
        return torch.index_select(numbers, 0, self._group_of_each)

    @functools.cached_property
    def _group_of_each(self) -> torch.Tensor:
        """The number of the group that each value belongs to, (n,) int32."""
        return torch.repeat_interleave(self._lengths, output_size=self.size).int()

    def regularised(
        self, gradient: torch.Tensor, parameters: torch.Tensor, l1: bool
    ) -> torch.Tensor:
        """Return g + decay*w, or g + decay*sign(w) with `l1`, in new memory."""
        term = torch.sign(parameters) if l1 else parameters
        return gradient + self.spread_decays * term


@functools.cache
def fused_kernels(device: torch.device) -> Callable[..., None] | None:
    """What launches the kernels of `vectorized_ops.device.fused`; None where Triton does not work.

    It needs a C compiler, Python's headers, and a GPU that it knows. One launch tells.
    """
    if device.type not in ("cuda", "xpu") or find_spec("triton") is None:
        return None
    try:
        from vectorized_ops.device.fused import launch

        *vectors, one = (torch.zeros(1, dtype=torch.float32, device=device) for _ in range(4))
        launch("sgd", tuple(vectors), one, one, 0.0, 0.0, nesterov=False, l1=False)
    except Exception as error:  # noqa: BLE001  (compilers and drivers have errors of their own)
        said = (str(error).splitlines() or [type(error).__name__])[0]
        print(
            f"{device}: Triton does not work here ({said}): optimizers are slower", file=sys.stderr
        )
        return None
    return launch


def _on(device: torch.device, values: npt.NDArray[np.generic]) -> torch.Tensor:
    return torch.from_numpy(values).to(device)
