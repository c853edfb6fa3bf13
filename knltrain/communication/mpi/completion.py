"""Waiting for MPI requests with a deadline; MPI_Wait has none, and busy-waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from knltrain.communication.mpi.polling import FAILED, address_of, finish_until, scratch
from knltrain.communication.mpi.progress import failure
from knltrain.errors import ExchangeTimeout

_SLICE_NANOSECONDS = 100_000_000
"""The time of one wait in the kernel; only Python, between two of them, handles signals."""


@final
class Completion:
    """Waits for MPI requests, for at most ``timeout_seconds`` unless a call gives another limit.

    ``check`` is called about every 0.1 s, and may raise. Time during which this process is stopped,
    for example because a scheduler suspends the whole job, does not count.
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
        """Return when all requests are complete; ``awaited()`` names the peers in the error.

        Raises ExchangeTimeout, PeerLost if MPI fails, and what ``check`` raises. After a timeout
        MPI may still write to the requests' buffers.
        """
        limit_seconds = self._timeout_seconds if limit_seconds is None else limit_seconds
        # MPI_Test sets the handle of a complete request to null in place, inside mpi4py's object.
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
