"""The interface of optimizers: moves parameters by a gradient."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from knltrain.vectors import FloatArray

StateArray: TypeAlias = npt.NDArray[np.float32 | np.int64]


class Optimizer(ABC):
    """Moves a packed parameter vector along its gradient."""

    @property
    @abstractmethod
    def state(self) -> dict[str, StateArray]:
        """The optimizer's state between steps, by name; written in place to continue.

        Before the first step all of it is zero. Together with the parameters it determines every
        later step to the last bit.
        """

    @abstractmethod
    def step(self, parameters: FloatArray, gradient: FloatArray, learning_rate: float) -> None:
        """Update `parameters` (n,) in place from `gradient` (n,); `gradient` may be overwritten."""
