"""Waiting for requests of MPI, with a deadline: MPI's own waiting has none, and spins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from knltrain.communication.mpi.polling import FAILED, address_of, finish_until, scratch
from knltrain.communication.mpi.progress import failure
from knltrain.errors import ExchangeTimeout

_SLICE_NANOSECONDS = 100_000_000
"""So long a wait does not come back to Python, where signals are seen."""


@final
class Completion:
    """Waits for requests in MPI, for ``timeout_seconds`` at most, unless a call says otherwise.

    ``check`` is called about every 0.1 s, and may raise. While this process is stopped, as when a
    scheduler suspends a whole job, it does not wait.
    """

    def __init__(
        self, mpi: Any, timeout_seconds: float, check: Callable[[], None] = lambda: None
    ) -> None:
        self._mpi, self._timeout_seconds, self._check = mpi, timeout_seconds, check
        self._test = address_of(mpi, "MPI_Test")
        self._abandoned: list[Any] = []

    def of(
        self,
        requests: Sequence[Any],
        awaited: Callable[[], str],
        limit_seconds: float | None = None,
    ) -> None:
        """Return when all are complete; ``awaited()`` says what for, in the message otherwise.

        Raises ExchangeTimeout, after which MPI may still write to what they read to, PeerLost if
        MPI fails, and what ``check`` raises.
        """
        limit_seconds = self._timeout_seconds if limit_seconds is None else limit_seconds
        # MPI_Test sets a handle that is done to null where it lies: inside mpi4py's object.
        places = np.array([self._mpi._addressof(request) for request in requests], np.int64)
        results, waited = scratch(), 0
        left = len(requests)
        while left:
            left = finish_until(self._test, places[:left], results, waited, _SLICE_NANOSECONDS)
            if left == FAILED:
                raise failure(self._mpi, int(results[2]))
            waited += _SLICE_NANOSECONDS
            if not left:
                return
            try:
                self._check()
            except BaseException:
                self._abandoned += requests  # MPI may still write to their memory
                raise
            if waited >= limit_seconds * 1e9:
                self._abandoned += requests
                raise ExchangeTimeout(f"waited {limit_seconds:g} s in vain for {awaited()}")
