"""Barriers, sums, gathers and broadcasts of the workers of a run that are one MPI job."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, final

import numpy as np
import numpy.typing as npt

from knltrain.communication.mpi.completion import Completion
from knltrain.exchange.transports.team import check_sum_values

_AWAITED = "the other workers; if they can be so late, raise exchange.timeout_seconds"


@final
class MpiTeam:
    """The collective calls of the ranks of ``mpi``.COMM_WORLD, with a deadline each.

    Ranks may be late by ``timeout_seconds``. ``check`` is called about every 0.1 s during waiting,
    and may raise. All methods raise what `Completion.of` does.
    """

    def __init__(self, mpi: Any, timeout_seconds: float, check: Callable[[], None]) -> None:
        self._world = mpi.COMM_WORLD
        self._timeout_seconds = timeout_seconds
        self._completion = Completion(mpi, timeout_seconds, check)
        self.rank: int = self._world.rank
        self.workers: int = self._world.size

    def barrier(self, limit_seconds: float | None = None) -> None:
        """Wait until every worker is here (collective)."""
        self.finish(self._world.Ibarrier(), limit_seconds)

    def later(self, limit_seconds: float | None) -> float:
        """Return the longer one of a limit, if given, and the usual one."""
        return max(limit_seconds or 0.0, self._timeout_seconds)

    def all_sum(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Add up (k,) float64 numbers over all workers in rank order, see `Team.all_sum`."""
        check_sum_values(values)
        total = np.zeros_like(values)
        for each in self.gathered(np.ascontiguousarray(values)):
            total += each
        return total

    def gathered(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Gather ``values`` of all ranks, (P, k), by rank (collective); all have the same size."""
        found = np.zeros((self.workers, values.size), values.dtype)
        self.finish(self._world.Iallgather(values, found))
        return found

    def link_rate(self, size: int, on_node: int) -> float | None:
        """Bytes per second at which a node of so many ranks sends, see `Team.link_rate`.

        To each rank of another node go the values of all ranks of this one.
        """
        others = self.workers - on_node
        if not others:
            return None
        values = np.zeros(-(-size // (others * 8)))
        begin = time.perf_counter()
        self.gathered(values)
        return others * values.nbytes / (time.perf_counter() - begin)

    def broadcast(self, values: npt.NDArray[Any]) -> None:
        """Replace ``values`` by those of rank 0 (collective)."""
        self.finish(self._world.Ibcast(values))

    def finish(self, request: Any, limit_seconds: float | None = None) -> None:
        """Wait for a request that needs all others."""
        self._completion.of([request], lambda: _AWAITED, limit_seconds)
