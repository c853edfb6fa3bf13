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
"""Between two checks for workers that stand still: they cost more, and limits are in seconds."""


@dataclass(slots=True)
class Standstill:
    """A worker that stands still: how, as in ``stopped (state T)``, and for how long if known."""

    worker: WorkerProcess
    how: str
    seconds: float

    @property
    def told(self) -> str:
        """The text that follows `worker 1`."""
        return f"(process {self.worker.pid} on host {socket.gethostname()}) is {self.how}"


@final
class Vitals:
    """Watches the processes of ``workers``; time in which this process is stopped does not count.

    If this process has started all workers of the run (``alone``) and none of them moves, the run
    as a whole is suspended. That does not count as a standstill: no worker waits for another.
    """

    def __init__(self, workers: Sequence[WorkerProcess], alone: bool) -> None:
        self.ending: list[WorkerProcess] = []
        self._all = len(workers)
        self._alone = alone
        self._looked = self._looked_for_standstills = time.monotonic()
        self._stillness: Stillness[int] = Stillness()
        self._standstills: list[Standstill] = []

    def look(self, alive: Sequence[WorkerProcess]) -> None:
        """Sample the workers that are not known to have ended."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        self.ending = [worker for worker in alive if worker.sight.is_ending()]
        if now - self._looked_for_standstills >= _STANDSTILL_SECONDS:
            self._look_for_standstills(alive)

    def still_for(self, seconds: float) -> list[Standstill]:
        """The workers that have stood still for at least so long, the longest first."""
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
