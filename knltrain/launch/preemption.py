"""Requests a checkpoint, and the end of the run after it: on signals, by time, at the job's end."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Final, final

from knltrain.config import RunConfig
from knltrain.launch.events import Event
from knltrain.launch.rounds import Rounds
from knltrain.launch.signals import STOPPING, Echoes

_MINUTE: Final = 60.0


@final
class Preemption:
    """Requests checkpoints of a run, as `[preemption]` and `[checkpoint]` say.

    Requests by the clock and at the end of the job are made by the first process of a run only,
    which `leads`. `job_end` returns the time of that end (seconds since 1970), or None where it is
    not known. `note` shows the user a line.
    """

    def __init__(
        self,
        config: RunConfig,
        rounds: Rounds,
        note: Callable[[str], None],
        *,
        leads: bool = True,
        job_end: Callable[[], float | None] | None = None,
    ) -> None:
        self._chosen = config.preemption
        self._period_seconds = config.checkpoint.every_minutes * _MINUTE if leads else 0.0
        self._rounds, self._note = rounds, note
        self._job_end = job_end if leads else None
        self._asked_by: signal.Signals | None = None
        self._asked_at = 0.0
        self._asked_why: str | None = None
        self._signalled, self._echoes = False, Echoes()
        self._kept_at: float | None = None
        self._write_seconds = 0.0
        self._told_of = ""

    @property
    def fd(self) -> int | None:
        """Readable when another process that starts workers has sent a note."""
        return self._rounds.fd

    @property
    def why(self) -> str | None:
        """The reason to stop the run after a step, if there is one."""
        return self._rounds.why or self._asked_why

    def takes(self, number: signal.Signals) -> bool:
        """Handle a signal; False if it must end the run at once."""
        if number.name in self._chosen.checkpoint_signals:
            self._told_of = number.name
            self._rounds.ask(stops=False, why=number.name)
            return True
        if number.name not in self._chosen.signals:
            return number not in STOPPING
        if self._echoes.take(number):
            return True
        if self._signalled:
            return False
        self._signalled = True
        self._note(
            f"{number.name}: the run stops after a step, with a checkpoint; once more ends it at "
            "once"
        )
        if self._asked_by is None:  # else the clock has asked, which is no signal
            self._stop(number, number.name)
        return True

    def hears(self, event: Event) -> bool:
        """Handle an event of a worker; True if it concerns no other listener."""
        if self._kept_at is None and event["event"] == "progress":
            self._kept_at = time.monotonic()
        if event["event"] != "checkpoint":
            return False
        self._kept_at, self._write_seconds = time.monotonic(), event["seconds"]
        if self._told_of:
            self._note(f"step {event['step']}  checkpoint, as {self._told_of} asks")
        self._told_of = ""
        return True

    def go_on(self) -> None:
        """Make the requests that are due; called at least twice a second."""
        self._rounds.go_on()
        now = time.monotonic()
        if self._kept_at is not None and 0 < self._period_seconds <= now - self._kept_at:
            self._kept_at = now
            self._rounds.ask(stops=False, why="checkpoint.every_minutes")
        if self._asked_by is None and self._job_ends():
            self._note("the job ends soon: the run stops after a step, with a checkpoint")
            self._stop(signal.SIGTERM, "the end of its job")

    @property
    def overdue(self) -> signal.Signals | None:
        """The signal that requested a stop which did not come in time, or None."""
        late = time.monotonic() - self._asked_at >= self._chosen.grace_seconds
        return self._asked_by if late else None

    def _job_ends(self) -> bool:
        end = None if self._job_end is None else self._job_end()
        if end is None:
            return False
        reserve_seconds = self._chosen.reserve_seconds + 2 * self._write_seconds
        return time.time() >= end - reserve_seconds

    def _stop(self, number: signal.Signals, why: str) -> None:
        self._asked_by, self._asked_at, self._asked_why = number, time.monotonic(), why
        self._rounds.ask(stops=True, why=why)
