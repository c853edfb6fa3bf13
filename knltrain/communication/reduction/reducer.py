"""The interface of asynchronous sums: start one, compute something else, wait for it."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from knltrain.errors import CollectiveError
from knltrain.vectors import FloatArray


class Reduction(ABC):
    """A sum under way."""

    @abstractmethod
    def wait(self) -> float:
        """Wait for the result; return the `time.perf_counter()` at which the values had it.

        May be called again. Raises the error of the sum: PeerLost, ExchangeTimeout or
        CollectiveError.
        """


class Reducer(ABC):
    """Adds up vectors of all ``ranks``; this is ``rank``. All start the same sums in order."""

    rank: int
    ranks: int

    @abstractmethod
    def start(self, values: FloatArray, average: bool = False) -> Reduction:
        """Begin to replace ``values`` by their sum over all ranks, or by their mean.

        All ranks get the same bits. ``values``, contiguous float32 of any shape, belong to the
        reduction until `Reduction.wait` has returned. Raises CollectiveError for other arrays;
        errors of other ranks are raised by `Reduction.wait`.
        """

    @abstractmethod
    def close(self) -> None:
        """Leave the others."""


def check_values(values: FloatArray) -> None:
    """Raise CollectiveError unless the values are contiguous float32 that can be written."""
    flags = values.flags
    if values.dtype != np.float32 or not flags.c_contiguous or not flags.writeable:
        raise CollectiveError(
            f"cannot sum values of type {values.dtype}, shape {values.shape} and strides "
            f"{values.strides} over all ranks: expected contiguous float32 that can be written; "
            "give np.ascontiguousarray(values, np.float32)"
        )
