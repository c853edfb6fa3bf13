"""Why a worker failed, or stands still, and which of several failures caused the others."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, final

from knltrain.communication.shared_memory.polling import Stillness
from knltrain.data.mapped import bus_error_hint
from knltrain.launch.events import Event
from knltrain.launch.signals import signal_name
from knltrain.launch.worker_process import WorkerProcess

CONSEQUENCES: Final = ("ExchangeTimeout", "PeerLost", "RunAborted")
"""Errors that another worker's end causes, the ones nearest to a cause first."""

FROM_ELSEWHERE: Final = (*CONSEQUENCES, "CollectiveError")
"""Errors that the end of a worker on another node may cause."""

_CRASHES: Final = (signal.SIGSEGV, signal.SIGABRT)
"""Signals that may kill an MPI library while it reads the memory of a process that is gone."""

_HINTS: Final[dict[int, Callable[[], str]]] = {
    signal.SIGKILL: lambda: "perhaps out of memory",
    signal.SIGBUS: bus_error_hint,
}


@dataclass(frozen=True, slots=True)
class Failure:
    """A worker's failure; the text of `cause` follows `worker 1` and the `verb`."""

    rank: int
    cause: str
    exit_code: int
    at_seconds: float
    kind: str | None = None
    signal_number: int | None = None
    verb: str = "failed: "

    @property
    def may_come_from_elsewhere(self) -> bool:
        """Whether a failed worker on another node can have caused it."""
        return self.kind in FROM_ELSEWHERE or self.signal_number in _CRASHES

    @property
    def may_come_of_a_standstill(self) -> bool:
        """Whether it is a timeout that a worker standing still can have caused."""
        return self.kind in ("ExchangeTimeout", "CollectiveError")

    @classmethod
    def from_event(cls, rank: int, event: Event) -> Failure:
        """A failure that the worker itself reported (an `error` event)."""
        step, message = event["step"], event["message"]
        told = step is None or message.startswith("step ")
        return cls(
            rank=rank,
            cause=message if told else f"step {step}: {message}",
            exit_code=event["exit_code"],
            at_seconds=event["at_seconds"],
            kind=event["kind"],
        )

    @classmethod
    def from_standstill(cls, standstill: Standstill) -> Failure:
        """A failure of a worker that stands still; it began when the standstill did."""
        seconds = standstill.seconds
        cause = (
            f"{standstill.told}, for {seconds:.1f} s so far: expected workers to go on, or all to "
            "stand still at once; if one is to be stopped for so long, raise "
            "exchange.timeout_seconds"
        )
        return cls(standstill.worker.rank, cause, 1, time.monotonic() - seconds, verb="")

    @classmethod
    def from_exit(cls, rank: int, returncode: int) -> Failure:
        """A failure of a worker that ended without an event; negative `returncode`: a signal."""
        if returncode >= 0:
            cause = f"it exited with code {returncode} before its work was done"
            return cls(rank, cause, 1, time.monotonic())
        number = -returncode
        hint = f" ({_HINTS[number]()})" if number in _HINTS else ""
        cause = f"it was killed by {signal_name(number)}{hint}"
        return cls(rank, cause, 1, time.monotonic(), signal_number=number)


def first_cause(failures: Sequence[Failure]) -> Failure:
    """The failure that explains the rest: real causes before consequences, then the earliest."""
    return min(failures, key=lambda failure: (_distance_from_cause(failure), failure.at_seconds))


def _distance_from_cause(failure: Failure) -> int:
    return CONSEQUENCES.index(failure.kind) + 1 if failure.kind in CONSEQUENCES else 0


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
