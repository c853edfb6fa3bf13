"""The team: all workers of a run, as one of them uses it, and as its strategy has it made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from knltrain.clocks import ExchangeClocks
from knltrain.vectors import FloatArray


class Team(ABC):
    """The workers of a run, and what they do together besides exchanges.

    A collective call returns after every worker has made the same call. All workers must make
    them in the same order. While it waits a worker notices

    - an abort of the run within about a millisecond, and raises what `check` raises,
    - the end of a peer's process within about a tenth of a second: PeerLost,
    - a living peer that does not come, after the time limit: ExchangeTimeout.
    """

    rank: int
    """This worker's number, 0 <= rank < workers."""

    workers: int
    """The number of workers, P."""

    clocks: ExchangeClocks
    """The time that this worker itself spends in exchanges, waiting, and as a master."""

    group: Team | None = None
    """The workers of this worker's group; None where there are no groups."""

    @abstractmethod
    def all_sum(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Add up a few float64 numbers over all workers (collective), to the same bits everywhere.

        ``values`` has shape (k,), the same k at all. Returns a new array of the same shape.
        """

    def link_rate(self, size: int) -> float | None:  # noqa: ARG002
        """Bytes per second at which this node sends about ``size`` bytes (collective).

        They go to the other nodes in one all-gather, in which nothing is computed. None on one
        node, and at a worker that does not send.
        """
        return None

    @abstractmethod
    def barrier(self, timeout_seconds: float | None = None) -> None:
        """Wait until every worker is here (collective), with a longer time limit if given."""

    @abstractmethod
    def progress(self, steps: int) -> npt.NDArray[np.int64]:
        """Publish that this worker has done ``steps`` steps; return those of all, (P,) int64.

        Collective among workers that take every step together: all of them get the same numbers.
        Waits for no others. A worker that has published nothing counts as 0. Of two workers that
        call it at once, at least one finds what the other publishes.
        """

    @abstractmethod
    def check(self) -> None:
        """Raise RunAborted or PeerLost if the run is being aborted; cheap enough for every step."""

    @abstractmethod
    def close(self) -> None:
        """Release the memory that the workers share; views of it must not be used afterwards."""


def check_sum_values(values: npt.NDArray[np.float64]) -> None:
    """Raise ValueError unless `all_sum` can add up ``values``."""
    if values.ndim != 1 or not values.size or values.dtype != np.float64:
        raise ValueError(
            f"all_sum: got {values.dtype} of shape {values.shape}, expected float64 of (k,), k >= 1"
        )


def of_all_workers(team: Team, values: Sequence[float]) -> npt.NDArray[np.float64]:
    """A few numbers of every worker, (P, k) by rank (collective)."""
    found = np.zeros((team.workers, len(values)))
    found[team.rank] = values
    return team.all_sum(found.ravel()).reshape(found.shape)


class TeamFactory(ABC):
    """Makes the team of one worker, in the way that its strategy needs."""

    @abstractmethod
    def meeting_all(self) -> Team:
        """Make a team whose workers exchange all at once, in groups or not."""

    @abstractmethod
    def visiting(self) -> Team:
        """Make a team whose workers, or roots of groups, visit a center."""

    @abstractmethod
    def in_one_job(self) -> Team:
        """Make a team whose workers, one MPI job, write into each other's memory."""


def check_start_values(values: FloatArray | None, size: int) -> FloatArray:
    """Return the start values of rank 0, or raise ValueError if they are missing or do not fit."""
    if values is None:
        raise ValueError("start_from: rank 0 must give the values that all workers start from")
    if values.shape != (size,) or values.dtype != np.float32:
        raise ValueError(
            f"start_from: got {values.dtype} of shape {values.shape}, expected float32 of ({size},)"
        )
    return values
