"""The workers of a run as one of them sees them."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from knltrain.clocks import ExchangeClocks


class Team(ABC):
    """The workers of a run, and what they do together besides exchanges.

    The collective calls return after every worker has made the same call; the workers must make
    them in the same order. While a worker waits, it notices within about a millisecond that the run
    was aborted, within about a tenth of a second that a peer's process is gone, and after the time
    limit that a peer is alive but does not come. It raises what ``check`` raises, PeerLost or
    ExchangeTimeout.
    """

    rank: int
    """This worker's number, 0 <= rank < workers."""

    workers: int
    """How many workers take part, P."""

    clocks: ExchangeClocks
    """What the worker itself spends in exchanges, waiting and as a master."""

    @abstractmethod
    def all_sum(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Add up a few float64 numbers over all workers (collective), to the same bits everywhere.

        ``values`` has shape (k,), the same k at all. Returns a new array of the same shape.
        """

    @abstractmethod
    def barrier(self, timeout_seconds: float | None = None) -> None:
        """Wait until every worker is here (collective), with a longer time limit if given."""

    @abstractmethod
    def progress(self, steps: int) -> npt.NDArray[np.int64]:
        """Say that this worker has done ``steps`` steps; return what all have said, (P,) int64.

        Waits for nobody, except for those that it takes every step with: they call it together, and
        all get the same. Who has said nothing yet has done 0. Of two workers that call it at once,
        one at least finds what the other says.
        """

    @abstractmethod
    def check(self) -> None:
        """Raise RunAborted or PeerLost if the run is being aborted; cheap enough for every step."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the memory that the workers share; views of it must not be used afterwards."""


def check_sum_values(values: npt.NDArray[np.float64]) -> None:
    """Raise ValueError unless ``values`` is something that ``all_sum`` can add up."""
    if values.ndim != 1 or not values.size or values.dtype != np.float64:
        raise ValueError(
            f"all_sum: got {values.dtype} of shape {values.shape}, expected float64 of (k,), k >= 1"
        )
