"""Rounds: all workers of a run write a checkpoint after the same step.

The first of the processes that start workers leads; the others send it their requests, and do as it
says. For each round

1. every process holds the round on the board of its own workers
   (`knltrain.exchange.transports.board`), and tells the leader the largest step that they
   have begun;
2. all processes open the round for the largest of these steps.
"""

from __future__ import annotations

from typing import Any, Protocol, final

from knltrain.exchange.transports.board import OpenRound, RequestBoard


class Notes(Protocol):
    """The channel to the other processes that start workers: from the first to all, and back."""

    others: int
    leads: bool
    notes_fd: int

    def tell(self, note: dict[str, Any]) -> None:
        """Send a note to all others, or to the first one."""

    def notes(self) -> list[dict[str, Any]]:
        """The notes that have come since the last call."""


@final
class Rounds:
    """The rounds as one process sees them, with the ``board`` of its workers.

    `why` is the reason to stop the run, once all workers are told to; None before.
    """

    def __init__(self, board: RequestBoard, job_peers: Notes | None) -> None:
        self.why: str | None = None
        self._board, self._job_peers = board, job_peers
        self._leads = job_peers is None or job_peers.leads
        self._wanted: dict[bool, str] = {}
        self._current = OpenRound(0, 0, stops=False)
        self._awaited = 0

    @property
    def fd(self) -> int | None:
        """Readable when there are notes; None where there are no other processes."""
        return None if self._job_peers is None else self._job_peers.notes_fd

    def ask(self, *, stops: bool, why: str) -> None:
        """Request a checkpoint of all workers, and the end of the run after it if ``stops``."""
        if not self._leads:
            assert self._job_peers is not None
            self._job_peers.tell({"ask": why, "stops": stops})
            return
        self._wanted.setdefault(stops, why)
        self.go_on()

    def go_on(self) -> None:
        """Obey the others' notes, and begin a round if one is requested and the last is done."""
        for note in self._job_peers.notes() if self._job_peers is not None else ():
            self._obey(note)
        if self._leads and self._wanted and not self._under_way:
            self._begin()

    @property
    def _under_way(self) -> bool:
        return self._awaited > 0 or not self._board.answered(self._current.number)

    def _begin(self) -> None:
        stops = True in self._wanted
        if stops:
            self.why = self._wanted[True]
        self._wanted.clear()
        number = self._current.number + 1
        self._current = OpenRound(number, self._board.hold(number), stops)
        if self._job_peers is not None:
            self._awaited = self._job_peers.others
            self._job_peers.tell({"hold": number})
        self._open_if_all_have_told()

    def _open_if_all_have_told(self) -> None:
        if self._awaited:
            return
        number, step, stops = self._current
        if self._job_peers is not None:
            self._job_peers.tell({"open": number, "step": step, "stops": stops, "why": self.why})
        self._board.open(self._current)

    def _obey(self, note: dict[str, Any]) -> None:
        if "ask" in note:
            self._wanted.setdefault(bool(note["stops"]), str(note["ask"]))
        elif "held" in note:
            self._take(int(note["held"]), int(note["step"]))
        elif "hold" in note:
            assert self._job_peers is not None
            number = int(note["hold"])
            self._job_peers.tell({"held": number, "step": self._board.hold(number)})
        else:
            self.why = note["why"]
            self._board.open(OpenRound(int(note["open"]), int(note["step"]), bool(note["stops"])))

    def _take(self, number: int, step: int) -> None:
        """Take the largest step that another process's workers have begun."""
        if number == self._current.number and self._awaited:
            self._current = self._current._replace(step=max(self._current.step, step))
            self._awaited -= 1
            self._open_if_all_have_told()
