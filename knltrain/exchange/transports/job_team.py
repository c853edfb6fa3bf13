"""The team of workers that write into each other's memory: one MPI job, or one worker alone."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import numpy.typing as npt

from knltrain.communication.communication_cores import made_there
from knltrain.communication.gaspi import AddressSpace, MPIRanks, thread_ranks
from knltrain.communication.mpi.joining import leave_mpi
from knltrain.errors import KnltrainError
from knltrain.exchange.transports.loopback import Loopback
from knltrain.exchange.transports.mpi_team import MpiTeam
from knltrain.exchange.transports.node_shared import NodeShared
from knltrain.exchange.transports.team import Team

_LEAVE_SECONDS = 5.0
_ALONE_SECONDS = 60.0
"""The time limit of a worker alone, which waits for no other."""


@final
class JobTeam(Team):
    """A worker with an address ``space``, by which it writes to all others.

    ``inside`` is the worker in its node's segment, by which it notices an abort of the run.
    ``meetings`` has the collective calls of the job; None for a worker alone. ``at_peace`` tells
    whether nothing was begun since the last barrier; a worker that leaves without that leaves
    without the others. ``timeout_seconds`` is how late others may be.
    """

    def __init__(
        self, inside: Team, space: AddressSpace, meetings: MpiTeam | None, timeout_seconds: float
    ) -> None:
        self._inside, self._meetings = inside, meetings
        self.space, self.timeout_seconds = space, timeout_seconds
        self.rank, self.workers = space.rank, space.size
        self.clocks = inside.clocks
        self.at_peace = True

    @classmethod
    def of_one(cls) -> JobTeam:
        """Make the team of a worker alone, which needs no MPI."""
        (rank,) = thread_ranks(1)
        return cls(Loopback(1), AddressSpace(rank), None, _ALONE_SECONDS)

    @classmethod
    def of_job(cls, inside: NodeShared, mpi: Any, timeout_seconds: float) -> JobTeam:
        """Make the team of a worker of the MPI job ``mpi``.COMM_WORLD, the whole run (collective).

        Raises ExchangeTimeout if ranks are missing.
        """
        meetings = MpiTeam(mpi, timeout_seconds, inside.check)
        space = made_there(
            lambda: AddressSpace(MPIRanks(mpi.COMM_WORLD), timeout_seconds=timeout_seconds)
        )
        return cls(inside, space, meetings, timeout_seconds)

    def all_sum(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Add up a few float64 numbers over all workers in rank order (collective)."""
        if self._meetings is None:
            return self._inside.all_sum(values)
        return self._meetings.all_sum(values)

    def link_rate(self, size: int) -> float | None:
        """Bytes per second at which this node sends about ``size`` bytes, see `Team.link_rate`."""
        if self._meetings is None:
            return None
        return self._meetings.link_rate(size, self._inside.workers)

    def barrier(self, timeout_seconds: float | None = None) -> None:
        """Wait until every worker is here (collective), with a longer time limit if given."""
        if self._meetings is None:
            self._inside.barrier(timeout_seconds)
        else:
            self._meetings.barrier(self._meetings.later(timeout_seconds))
        self.at_peace = True

    def progress(self, steps: int) -> npt.NDArray[np.int64]:
        """Publish that this worker has done ``steps`` steps; return those of all (collective).

        All workers take every step together.
        """
        if self._meetings is None:
            return self._inside.progress(steps)
        return self._meetings.gathered(np.array([steps])).reshape(-1)

    def check(self) -> None:
        """Raise RunAborted or PeerLost if the run is being aborted."""
        self._inside.check()

    def close(self) -> None:
        """Leave the job, if all others do so in a few seconds; release the node's memory."""
        at_peace, self.at_peace = self.at_peace, False
        try:
            if at_peace and self._meetings is not None:
                self._meetings.barrier(_LEAVE_SECONDS)
            if at_peace:
                self.space.close()
            else:
                self.space.abandon()
            if at_peace and self._meetings is not None:
                leave_mpi(_LEAVE_SECONDS)
        except KnltrainError:
            self.space.abandon()
        finally:
            self._inside.close()
