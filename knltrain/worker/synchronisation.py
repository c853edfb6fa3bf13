"""The meetings of all workers of a run: between two steps, before the first and after the last."""

from __future__ import annotations

from typing import final

from knltrain.exchange.strategies.strategy import Strategy
from knltrain.worker.termination import RunProgress

MEETING_SECONDS = 1800.0
"""Timeout of workers that wait for each other outside exchanges: before the first step one may
compile kernels, and workers that exchange alone, or seldom, may be many steps apart."""


@final
class Synchronisation:
    """One worker's part in the meetings of its run; each reads `progress` anew.

    `step` is the run's step at the last meeting.
    """

    def __init__(self, strategy: Strategy, progress: RunProgress) -> None:
        self.step = self._own_step = 0
        self._strategy = strategy
        self._team = strategy.team
        self._progress = progress

    def wait(self) -> None:
        """Wait until all workers of the run are here: a barrier (collective)."""
        self._strategy.settle()
        method = self._strategy.method
        apart = method.comes_alone or method.period != 1
        self._team.barrier(MEETING_SECONDS if apart else None)

    def agree(self, own_step: int) -> int:
        """Wait until all workers are here, and read the run's step while none of them steps.

        This worker is at `own_step`. Returns the run's step at the meeting before.
        """
        self._progress.look(own_step)
        self.wait()
        self._progress.meet(own_step)
        self._team.barrier()
        since, self.step, self._own_step = self.step, self._progress.step, own_step
        return since

    def unmoved_since(self, own_step: int) -> int | None:
        """The run's step at the last meeting, if this worker has done no step since; else None."""
        return self.step if own_step == self._own_step else None
