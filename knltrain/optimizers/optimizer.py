"""The seam for what a worker does with its gradient."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]


class Optimizer(ABC):
    """Moves a packed parameter vector along its gradient."""

    @property
    @abstractmethod
    def state(self) -> dict[str, FloatArray]:
        """What the optimizer remembers between steps, by name; written in place to continue."""

    @abstractmethod
    def step(self, parameters: FloatArray, gradient: FloatArray, learning_rate: float) -> None:
        """Update `parameters` (n,) in place from `gradient` (n,); `gradient` may be overwritten."""
