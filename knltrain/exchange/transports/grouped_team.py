"""Workers in groups of equal size: a transport inside each group, and one between their roots."""

from __future__ import annotations

from typing import final

import numpy as np
import numpy.typing as npt

from knltrain.exchange.transports.team import Team
from knltrain.exchange.transports.transport import Transport
from knltrain.vectors import FloatArray


@final
class GroupedTeam(Team):
    """All workers of a run in A groups of S workers each; rank 0 of a group is its root.

    ``inside`` connects the workers of this worker's group. ``outside``, which only roots have,
    connects the A roots. Rank r of the run is rank r mod S of group r // S. ``center`` (n,) float32
    is the center of ``outside``, which every worker can read.
    """

    def __init__(
        self,
        group: int,
        groups: int,
        inside: Transport,
        outside: Transport | None,
        center: FloatArray,
    ) -> None:
        self.rank = group * inside.workers + inside.rank
        self.workers = groups * inside.workers
        self.clocks = inside.clocks
        if outside is not None:
            outside.clocks = self.clocks
        self.inside = self.group = inside
        self.outside = outside
        self.center = center

    def all_sum(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Add up a few float64 numbers: in each group, over the groups, and back (collective)."""
        of_group = self.inside.all_sum(values)
        of_all = np.zeros_like(values) if self.outside is None else self.outside.all_sum(of_group)
        return self.inside.all_sum(of_all)

    def link_rate(self, size: int) -> float | None:
        """Bytes per second at which this node's roots send, see `Team.link_rate`."""
        return None if self.outside is None else self.outside.link_rate(size)

    def barrier(self, timeout_seconds: float | None = None) -> None:
        """Wait until every worker is here (collective)."""
        self.inside.barrier(timeout_seconds)
        if self.outside is not None:
            self.outside.barrier(timeout_seconds)
        self.inside.barrier(timeout_seconds)

    def progress(self, steps: int) -> npt.NDArray[np.int64]:
        """Publish that this group has done ``steps`` steps; return those of all, (P,).

        Collective in the group, whose workers are all at the same step. All get the numbers that
        the root has read, so that they act on the same ones.
        """
        groups = self.workers // self.inside.workers
        found = np.zeros(groups, np.float64)
        if self.outside is not None:
            found[:] = self.outside.progress(steps)
        found = self.inside.all_sum(found)
        return np.repeat(found.astype(np.int64), self.inside.workers)

    def check(self) -> None:
        """Raise RunAborted or PeerLost if the run is being aborted."""
        self.inside.check()
        if self.outside is not None:
            self.outside.check()

    def close(self) -> None:
        """Release the memory of the group, and of that between groups."""
        self.center = np.zeros(0, np.float32)
        self.inside.close()
        if self.outside is not None:
            self.outside.close()
