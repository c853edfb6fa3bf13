"""The interface of transports: a worker's own vectors, and the center of all workers."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from knltrain.exchange.transports.team import Team
from knltrain.vectors import FloatArray


class Transport(Team):
    """One worker's access to the center and to its peers; also a `Team`.

    Workers exchange all at once (`CollectiveTransport`), or each visits the center
    (`VisitedCenter`).
    """

    local: FloatArray
    """This worker's vector, shape (n,) float32, in the transport's memory; the worker fills it."""

    spare: FloatArray
    """A second vector, which peers can read, too; (0,) if there are no spares."""

    center: FloatArray
    """The vector common to all workers, shape (n,) float32; moved by exchanges only."""

    kept: FloatArray
    """The vectors that a rule keeps beside the center, shape (C − 1, n) float32."""

    @property
    def residual(self) -> FloatArray:
        """The residual of contributions for the next exchanges, (n,), or (0,) if none is kept."""
        return np.zeros(0, np.float32)

    @property
    def keeps_center(self) -> bool:
        """Whether this worker saves the center and ``kept``: rank 0, or one for each replica."""
        return self.rank == 0

    @abstractmethod
    def start_from(self, values: FloatArray | None = None) -> None:
        """Set the center and every local to the values of rank 0 (collective); ``kept`` to 0.

        ``values`` has shape (n,) float32. Only rank 0's are used; the others may pass None.
        """
