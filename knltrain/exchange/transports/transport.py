"""The vectors of one worker: its own, and the center that it shares with the others."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from knltrain.exchange.transports.team import Team
from knltrain.vectors import FloatArray


class Transport(Team):
    """One worker's way to the center and to its peers; also a ``Team``.

    Workers meet all at once (`CollectiveTransport`), or each visits the center (`VisitedCenter`).
    """

    local: FloatArray
    """This worker's vector, shape (n,) float32; the transport's memory, which the worker fills."""

    spare: FloatArray
    """Another one, or (0,) where the transport was made without; peers can read it, too."""

    center: FloatArray
    """The vector common to all workers, shape (n,) float32; moved by exchanges only."""

    kept: FloatArray
    """What a rule keeps beside the center, shape (C − 1, n) float32."""

    @property
    def residual(self) -> FloatArray:
        """What exchanges have kept of contributions for the next ones, (n,), or (0,) if nothing."""
        return np.zeros(0, np.float32)

    @property
    def keeps_center(self) -> bool:
        """Whether this worker answers for the center and ``kept``: rank 0, or one per replica."""
        return self.rank == 0

    @abstractmethod
    def start_from(self, values: FloatArray | None = None) -> None:
        """Give the center and every local the values of rank 0 (collective); ``kept`` becomes 0.

        ``values`` has shape (n,) float32. Only rank 0's count; the others may pass None.
        """
