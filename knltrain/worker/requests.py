"""Requests to all workers of a run between two steps: write a checkpoint, and stop there.

All workers serve a request at one meeting.

- Workers that wait for each other in their steps come to it after the same step, by
  `knltrain.exchange.transports.board`.
- Workers that visit the center at any time come from the step that they are at, so that nobody
  waits for a straggler. The checkpoint has each worker's own step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import final

import numpy as np

from knltrain.errors import ExchangeTimeout
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.transports.board import OpenRound, RequestBoard
from knltrain.exchange.transports.team import Team


class Requests(ABC):
    """One worker's view of the requests to all workers."""

    @abstractmethod
    def look(self, own_steps: int) -> bool:
        """Tell, between two steps, whether a request calls for a meeting now.

        Workers of a group look together.
        """

    @abstractmethod
    def agree(self, own_steps: int) -> OpenRound | None:
        """The request to serve now, at a meeting (collective); the same at all workers."""

    def close(self) -> None:  # noqa: B027
        """Release shared resources."""


@final
class NoRequests(Requests):
    """No requests: for workers whose starting process makes none."""

    def look(self, own_steps: int) -> bool:  # noqa: ARG002
        """Return False."""
        return False

    def agree(self, own_steps: int) -> OpenRound | None:  # noqa: ARG002
        """Return None."""
        return None


@final
class BoardRequests(Requests):
    """Requests on a `board`, where this worker has line `slot` of those of its process.

    `limit_seconds` is how long a round may be held.
    """

    def __init__(
        self, board: RequestBoard, slot: int, team: Team, method: Method, limit_seconds: float
    ) -> None:
        self._board, self._slot, self._team = board, slot, team
        from knltrain.communication.shared_memory.atomics import publish_and_read

        self._publish_and_read = publish_and_read
        self._at_any_time = method.comes_at_any_time
        self._group = team.group if self._at_any_time else None
        self._limit_seconds = limit_seconds
        self._found = np.zeros(board.lines.size, np.int64)
        self._answered = 0

    def look(self, own_steps: int) -> bool:
        """Announce that this worker begins its next step, unless it must go to a meeting."""
        word = self._set_out(own_steps)
        if not self._at_any_time and word % 2:
            word = self._awaited(own_steps)
        asked = self._is_for_now(self._board.open_round(word), own_steps)
        if self._group is None:
            return asked
        return bool(self._group.all_sum(np.array([asked], np.float64))[0])

    def agree(self, own_steps: int) -> OpenRound | None:
        """The open round that at least one worker has seen; workers may see it one by one."""
        found = self._board.open_round(self._set_out(own_steps))
        asked = self._is_for_now(found, own_steps)
        stops = asked and found is not None and found.stops
        any_asked, any_stops = self._team.all_sum(np.array([asked, stops], np.float64)).tolist()
        if not any_asked:
            return None
        self._answered += 1
        self._board.answer(self._slot, self._answered)
        return OpenRound(self._answered, own_steps, any_stops > 0)

    def close(self) -> None:
        """Let go of the board."""
        self._board.close()

    def _is_for_now(self, found: OpenRound | None, own_steps: int) -> bool:
        if found is None or found.number <= self._answered:
            return False
        return self._at_any_time or own_steps >= found.step

    def _set_out(self, own_steps: int) -> int:
        """Announce the next step, and return the round's word.

        If the board is held at the same time, either this worker or the holder finds the other's
        value.
        """
        self._publish_and_read(self._board.lines, self._slot + 1, own_steps + 1, self._found)
        return int(self._found[0])

    def _awaited(self, own_steps: int) -> int:
        """Wait until the round is no longer held; return its word."""
        from knltrain.communication.shared_memory.polling import nap_until

        opened = nap_until(
            lambda: self._set_out(own_steps) % 2 == 0,
            self._team.check,
            lambda: None,
            self._limit_seconds,
        )
        if not opened:
            raise ExchangeTimeout(
                f"waited {self._limit_seconds:g} s in vain to hear after which step all write "
                "a checkpoint: a process that starts workers on another computer may be "
                "stopped, or else raise exchange.timeout_seconds"
            )
        return int(self._found[0])
