"""The interface of optimizers: moves parameters by a gradient, all at once or part by part."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TypeAlias, final

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
        later step to the last bit. `state_written` is called after it was written.
        """

    def state_written(self) -> None:  # noqa: B027
        """Go on from what was written into `state`."""

    @abstractmethod
    def step(self, parameters: FloatArray, gradient: FloatArray, learning_rate: float) -> None:
        """Update `parameters` (n,) in place from `gradient` (n,); `gradient` may be overwritten."""


SingleProcessReducer: TypeAlias = Callable[[], AbstractContextManager[None]]
"""Makes a block inside which kernels use the calling thread alone."""


@final
class LayerwiseOptimizer(Optimizer):
    """An optimizer for each of the consecutive ``parts``, which together are the packed vector.

    Each steps by itself, in any single thread. For rules that read no other part, whose results are
    then those of one optimizer for all, to the same bits.
    """

    def __init__(
        self, parts: Sequence[slice], optimizers: Sequence[Optimizer], alone: SingleProcessReducer
    ) -> None:
        self._parts, self._optimizers, self._alone = parts, optimizers, alone

    @property
    def is_whole(self) -> bool:
        """Whether the only part is the whole vector."""
        return len(self._parts) == 1

    @property
    def state(self) -> dict[str, StateArray]:
        """The state of each, by its names with the number of the part."""
        return {
            f"{name}.{number}": values
            for number, each in enumerate(self._optimizers)
            for name, values in each.state.items()
        }

    def step(self, parameters: FloatArray, gradient: FloatArray, learning_rate: float) -> None:
        """Step with all parts, one after another, by all threads."""
        for part, each in zip(self._parts, self._optimizers, strict=True):
            each.step(parameters[part], gradient[part], learning_rate)

    def step_part(
        self, number: int, parameters: FloatArray, gradient: FloatArray, learning_rate: float
    ) -> None:
        """Step with part ``number``, from 0, by this thread; the vectors are its own."""
        with self._alone():
            self._optimizers[number].step(parameters, gradient, learning_rate)


@final
class OptimizerPlaceholder(Optimizer):
    """A placeholder in the loop, where the exchange steps when the gradient is there.

    Its state is that of the ``optimizer`` that the exchange uses; None: another worker has it.
    """

    def __init__(self, optimizer: Optimizer | None) -> None:
        self._optimizer = optimizer

    @property
    def state(self) -> dict[str, StateArray]:
        """The state of that optimizer."""
        return {} if self._optimizer is None else self._optimizer.state

    def step(self, parameters: FloatArray, gradient: FloatArray, learning_rate: float) -> None:
        """Do nothing."""
