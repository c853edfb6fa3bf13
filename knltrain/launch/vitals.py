"""How the workers of this process are, as the kernel tells: which are ending, which stand still."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

from knltrain.exchange.lateness import LONGEST_LOOK_SECONDS
from knltrain.launch.worker_process import WorkerProcess

LOOK_SECONDS: Final = 0.05
_STANDSTILL_SECONDS: Final = 0.25
"""From one look at who stands still to the next: it costs more, and limits are in seconds."""


@dataclass(slots=True)
class Standstill:
    """How a worker stands still, as in ``stopped (state T)``, and for how long as far as known."""

    worker: WorkerProcess
    how: str
    seconds: float = 0.0

    @property
    def told(self) -> str:
        """What reads on after `worker 1`."""
        return f"(process {self.worker.pid} on host {socket.gethostname()}) is {self.how}"


@final
class Vitals:
    """Looks at the processes of ``workers``; what this one misses while it is stopped is nothing.

    Where it has started all workers of the run (``alone``) and none of them moves, the run as a
    whole is suspended, which does not count: nobody waits for anybody.
    """

    def __init__(self, workers: Sequence[WorkerProcess], alone: bool) -> None:
        self.ending: list[WorkerProcess] = []
        self._all = len(workers)
        self._alone = alone
        self._looked = self._looked_for_standstills = time.monotonic()
        self._standstills: dict[int, Standstill] = {}

    def look(self, alive: Sequence[WorkerProcess]) -> None:
        """See how those that are not known to have ended are now."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        self.ending = [worker for worker in alive if worker.sight.is_ending()]
        if now - self._looked_for_standstills >= _STANDSTILL_SECONDS:
            self._look_for_standstills(alive)

    def still_for(self, seconds: float) -> list[Standstill]:
        """Those that have stood still for so long and do so now, the longest first."""
        found = [each for each in self._standstills.values() if each.seconds >= seconds]
        return sorted(found, key=lambda each: -each.seconds)

    def _look_for_standstills(self, alive: Sequence[WorkerProcess]) -> None:
        now = time.monotonic()
        passed = min(now - self._looked_for_standstills, LONGEST_LOOK_SECONDS)
        self._looked_for_standstills = now
        found = {}
        for worker in alive:
            if (how := worker.sight.standstill()) is not None:
                before = self._standstills.get(worker.rank)
                found[worker.rank] = Standstill(worker, how, before.seconds if before else 0.0)
        if not (self._alone and len(found) == self._all):
            for each in found.values():
                each.seconds += passed
        self._standstills = found
