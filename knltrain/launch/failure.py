"""Why a worker failed, and which of several failures caused the others."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from knltrain.launch.events import Event
from knltrain.launch.signals import signal_name
from knltrain.launch.vitals import Standstill

CONSEQUENCES: Final = ("ExchangeTimeout", "PeerLost", "RunAborted")
"""Errors that another worker's end causes, the ones nearest to a cause first."""

FROM_ELSEWHERE: Final = (*CONSEQUENCES, "CollectiveError")
"""Errors that the end of a worker on another node may cause."""

_CRASHES: Final = (signal.SIGSEGV, signal.SIGABRT)
"""Signals that may kill an MPI library while it reads the memory of a process that is gone."""

_HINTS: Final[dict[int, str]] = {
    signal.SIGKILL: "perhaps out of memory",
    signal.SIGBUS: "perhaps /dev/shm is full",
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
        hint = _HINTS.get(number)
        cause = f"it was killed by {signal_name(number)}" + (f" ({hint})" if hint else "")
        return cls(rank, cause, 1, time.monotonic(), signal_number=number)


def first_cause(failures: Sequence[Failure]) -> Failure:
    """The failure that explains the rest: real causes before consequences, then the earliest."""
    return min(failures, key=lambda failure: (_distance_from_cause(failure), failure.at_seconds))


def _distance_from_cause(failure: Failure) -> int:
    return CONSEQUENCES.index(failure.kind) + 1 if failure.kind in CONSEQUENCES else 0
