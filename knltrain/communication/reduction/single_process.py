"""The reducer of a program of one process: a sum is its own vector."""

from __future__ import annotations

import time
from typing import final

from knltrain.communication.reduction.reducer import Reducer, Reduction, check_values
from knltrain.vectors import FloatArray


@final
class SingleProcessReducer(Reducer):
    """One rank without others."""

    rank = 0
    ranks = 1

    def start(self, values: FloatArray, average: bool = False) -> Reduction:  # noqa: ARG002
        """Leave the values as they are."""
        check_values(values)
        return _Done(time.perf_counter())

    def close(self) -> None:
        """Do nothing: there are no others."""


@final
class _Done(Reduction):
    """A sum that was complete at its start."""

    def __init__(self, done_at: float) -> None:
        self._done_at = done_at

    def wait(self) -> float:
        """Return at once."""
        return self._done_at
