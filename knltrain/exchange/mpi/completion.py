"""Waiting for requests of MPI, with a deadline: MPI's own waiting has none, and spins."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from knltrain.errors import ExchangeTimeout
from knltrain.exchange.mpi.polling import FAILED, address_of, finish_until, scratch
from knltrain.exchange.mpi.progress import failure

_SLICE_NANOSECONDS = 100_000_000
"""So long a wait does not come back to Python, where signals are seen."""


@final
class Completion:
    """Waits for requests in MPI, for ``timeout_seconds`` at most."""

    def __init__(self, mpi: Any, timeout_seconds: float) -> None:
        self._mpi, self._timeout_seconds = mpi, timeout_seconds
        self._test = address_of(mpi, "MPI_Test")
        self._abandoned: list[Any] = []

    def of(self, requests: Sequence[Any], awaited: Callable[[], str]) -> None:
        """Return when all are complete; ``awaited()`` says what for, in the message otherwise.

        Raises ExchangeTimeout, after which MPI may still write to what they read to, and PeerLost
        if MPI fails.
        """
        # MPI_Test sets a handle that is done to null where it lies: inside mpi4py's object.
        places = np.array([self._mpi._addressof(request) for request in requests], np.int64)
        results, waited, begin = scratch(), 0, time.monotonic()
        left = len(requests)
        while left:
            left = finish_until(self._test, places[:left], results, waited, _SLICE_NANOSECONDS)
            if left == FAILED:
                raise failure(self._mpi, int(results[2]))
            waited += _SLICE_NANOSECONDS
            if left and time.monotonic() - begin >= self._timeout_seconds:
                self._abandoned += requests  # MPI may still write to their memory
                raise ExchangeTimeout(f"waited {self._timeout_seconds:g} s in vain for {awaited()}")
