"""Watches this process's workers through the kernel: which are ending, which stand still."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

from knltrain.communication.shared_memory.stillness import Stillness
from knltrain.launch.worker_process import WorkerProcess

LOOK_SECONDS: Final = 0.05
_STANDSTILL_SECONDS: Final = 0.25
"""From one look at who stands still to the next: it costs more, and limits are in seconds."""


@dataclass(slots=True)
class Standstill:
    """How a worker stands still, as in ``stopped (state T)``, and for how long as far as known."""

    worker: WorkerProcess
    how: str
    seconds: float

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
        self._stillness: Stillness[int] = Stillness()
        self._standstills: list[Standstill] = []

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
        found = [each for each in self._standstills if each.seconds >= seconds]
        return sorted(found, key=lambda each: -each.seconds)

    def _look_for_standstills(self, alive: Sequence[WorkerProcess]) -> None:
        self._looked_for_standstills = time.monotonic()
        told = ((worker, worker.sight.standstill()) for worker in alive)
        found = [(worker, how) for worker, how in told if how is not None]
        suspended = self._alone and len(found) == self._all
        self._stillness.look([worker.rank for worker, _ in found], counts=not suspended)
        self._standstills = [
            Standstill(worker, how, self._stillness.seconds(worker.rank)) for worker, how in found
        ]
