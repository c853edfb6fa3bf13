"""Options of the layers of a program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from knltrain.errors import NetworkError
from vectorized_ops.errors import OperationError
from vectorized_ops.implementations import Operations, operations
from vectorized_ops.numba.sgd import SGDUpdate
from vectorized_ops.reference.sgd import SGDUpdate as ReferenceSGDUpdate


@dataclass(frozen=True, slots=True)
class Options:
    """How layers compute, add up and step; all ranks must give the same options.

    `implementation` is one of vectorized_ops.implementations.IMPLEMENTATIONS; without `winograd`
    "numba" uses only direct convolution. With `average` a gradient is the mean over all ranks, else
    the sum. The initial weights follow from `seed` and a layer's name.
    """

    implementation: str = "numba"
    winograd: bool = True
    average: bool = True
    momentum: float = 0.0
    weight_decay: float = 0.0
    seed: int = 0

    @property
    def operations(self) -> Operations:
        """The implementation; NetworkError if there is none of that name."""
        try:
            return operations(self.implementation, self.winograd)
        except OperationError as error:
            raise NetworkError(str(error)) from None

    @property
    def sgd_update(self) -> Callable[..., Any]:
        """Return the implementation's step of gradient descent."""
        return ReferenceSGDUpdate if self.implementation == "reference" else SGDUpdate


def use_threads(threads: int, options: Options | None = None) -> None:
    """Set the number of threads of layers that are made from now on.

    Raises NetworkError if there are more than the implementation was started with.
    """
    try:
        (options or Options()).operations.use_threads(threads)
    except OperationError as error:
        raise NetworkError(str(error)) from None
