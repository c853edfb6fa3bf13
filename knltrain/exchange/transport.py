"""The seam behind which the center lives: how the vectors of the workers reach each other."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from knltrain.exchange.rule import ExchangeRule, FloatArray


class Transport(ABC):
    """One worker's way to the center and to its peers.

    The collective calls (``exchange``, ``start_from``, ``all_sum``, ``barrier``) return after every
    worker has made the same call; the workers must make them in the same order. While a worker
    waits, it notices within about a millisecond that the run was aborted, within about a tenth of a
    second that a peer's process is gone, and after the time limit that a peer is alive but
    does not come. It raises what ``check`` raises, PeerLost or ExchangeTimeout.
    """

    rank: int
    """This worker's number, 0 <= rank < workers."""

    workers: int
    """How many workers take part, P."""

    local: FloatArray
    """This worker's vector, shape (n,) float32; the transport's memory, which the worker fills."""

    center: FloatArray
    """The vector common to all workers, shape (n,) float32; moved by ``exchange`` only."""

    @abstractmethod
    def exchange(self, rule: ExchangeRule) -> None:
        """Apply ``rule`` once to the locals of all workers and the center (collective)."""

    @abstractmethod
    def start_from(self, values: FloatArray | None = None) -> None:
        """Give the center and every local the values of rank 0 (collective).

        ``values`` has shape (n,) float32. Only rank 0's count; the others may pass None.
        """

    @abstractmethod
    def all_sum(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Add up a few float64 numbers over all workers (collective), to the same bits everywhere.

        ``values`` has shape (k,), 1 <= k <= 8. Returns a new array of the same shape.
        """

    @abstractmethod
    def barrier(self, timeout_seconds: float | None = None) -> None:
        """Wait until every worker is here (collective), with another time limit if one is given."""

    @abstractmethod
    def check(self) -> None:
        """Raise RunAborted or PeerLost if the run is being aborted; cheap enough for every step."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the memory; ``local`` and ``center`` must not be used afterwards."""


SUM_LIMIT = 8
"""The most numbers that one ``all_sum`` adds up."""


def check_start_values(values: FloatArray | None, size: int) -> FloatArray:
    """Return the start values of rank 0, or raise ValueError if they are missing or do not fit."""
    if values is None:
        raise ValueError("start_from: rank 0 must give the values that all workers start from")
    if values.shape != (size,) or values.dtype != np.float32:
        raise ValueError(
            f"start_from: got {values.dtype} of shape {values.shape}, expected float32 of ({size},)"
        )
    return values


def check_sum_values(values: npt.NDArray[np.float64]) -> None:
    """Raise ValueError unless ``values`` is something that ``all_sum`` can add up."""
    if values.ndim != 1 or not 1 <= values.size <= SUM_LIMIT or values.dtype != np.float64:
        raise ValueError(
            f"all_sum: got {values.dtype} of shape {values.shape}, "
            f"expected float64 of (k,) with 1 <= k <= {SUM_LIMIT}"
        )
