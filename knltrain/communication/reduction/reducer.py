"""The seam of an asynchronous sum: start it, compute something else, wait for it."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from knltrain.errors import CollectiveError
from knltrain.vectors import FloatArray


class Reduction(ABC):
    """A sum under way."""

    @abstractmethod
    def wait(self) -> float:
        """Return when the values hold the result: at which `time.perf_counter()` they came to.

        May be called again. Raises what ended the sum: PeerLost, ExchangeTimeout, CollectiveError.
        """


class Reducer(ABC):
    """Adds up vectors of ``rank`` and the others of ``ranks``, who start the same sums in order."""

    rank: int
    ranks: int

    @abstractmethod
    def start(self, values: FloatArray, average: bool = False) -> Reduction:
        """Begin to replace ``values`` by their sum over all ranks, or by their mean.

        All ranks get the same bits. ``values``, contiguous float32 of any shape, are the
        reduction's until it was waited for. Raises CollectiveError for others; whatever the other
        ranks do wrong is raised by `Reduction.wait`.
        """

    @abstractmethod
    def close(self) -> None:
        """Leave the others."""


def check_values(values: FloatArray) -> None:
    """Raise CollectiveError unless the values are contiguous float32 that can be written."""
    flags = values.flags
    if values.dtype != np.float32 or not flags.c_contiguous or not flags.writeable:
        raise CollectiveError(
            f"values of type {values.dtype}, shape {values.shape} and strides {values.strides} "
            "were to be added up over all ranks: expected contiguous float32 that can be written; "
            "give np.ascontiguousarray(values, np.float32)"
        )
