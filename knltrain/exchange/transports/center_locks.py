"""Visits to the center, piece by piece, while other workers compute or visit it too.

Each piece of the center has a lock, a word that holds rank + 1 of its holder. A worker never waits
for a piece while another one is free. It begins at a piece of its own, so workers that visit at the
same time seldom contend for a lock.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from typing import TypeAlias, final

import numpy as np

from knltrain.clocks import Clock
from knltrain.communication.shared_memory.atomics import PATIENT_LOOKS, add, give_back, read, take
from knltrain.exchange.transports.peer_wait import PeerWait
from knltrain.exchange.transports.segment import Segment
from knltrain.exchange.transports.transport import Order

Work: TypeAlias = Callable[[slice], None]
"""work(piece): called with the elements of a piece of the center."""

_LOOKS_AT_TURN = 50
"""Polls with a yield after each: about as many microseconds."""


@final
class CenterLocks:
    """The visits of worker ``rank`` to the center of a segment."""

    def __init__(self, segment: Segment, rank: int, peer_wait: PeerWait) -> None:
        layout = segment.layout
        self._rank, self._workers = rank, segment.workers
        self._peer_wait = peer_wait
        self._words, self._turn_word = segment.words, layout.lock_word(layout.pieces)
        self._lock_words = [layout.lock_word(number) for number in range(layout.pieces)]
        self._pieces = [layout.piece(number) for number in range(layout.pieces)]
        self._first = rank * layout.pieces // segment.workers
        read(self._words, self._turn_word)  # compile it before any worker waits

    def make(self, work: Work, order: Order, waiting: Clock) -> None:
        """Do the work on every piece of the center, in an order of `VisitedCenter.visit`."""
        if order == "first_come":
            self._by_locks(work, waiting)
            return
        if order == "round_robin":
            self.await_turn(waiting)
        for piece in self._route():
            work(self._pieces[piece])
        if order == "round_robin":
            add(self._words, self._turn_word, 1)

    def close(self) -> None:
        """Release the segment's memory."""
        self._words = np.zeros(0, np.int64)
        self._pieces = []

    def _by_locks(self, work: Work, waiting: Clock) -> None:
        """Take the lock of each piece; those that others hold come last."""
        pending, refused = deque(self._route()), 0
        while pending:
            piece = pending.popleft()
            patient = refused >= len(pending)
            with waiting if patient else nullcontext():
                looks = PATIENT_LOOKS if patient else 1
                taken = take(self._words, self._lock_words[piece], self._rank + 1, looks) == 0
                if not taken:
                    pending.append(piece)
                    if patient:
                        self._wait_for(pending)
            refused = 0 if taken or patient else refused + 1
            if not taken:
                continue
            try:
                work(self._pieces[piece])
            finally:
                give_back(self._words, self._lock_words[piece])

    def _route(self) -> list[int]:
        pieces = list(range(len(self._pieces)))
        return pieces[self._first :] + pieces[: self._first]

    def _wait_for(self, pending: deque[int]) -> None:
        """Sleep until a piece looks free."""

        def holders() -> list[int]:
            return sorted({word - 1 for word in map(self._holder_word, pending) if word})

        self._peer_wait.wait(lambda: not all(map(self._holder_word, pending)), holders)

    def _holder_word(self, piece: int) -> int:
        return read(self._words, self._lock_words[piece])

    def await_turn(self, waiting: Clock) -> None:
        """Wait until it is this worker's turn by "round_robin"."""
        with waiting:
            self._await_turn()

    def _await_turn(self) -> None:
        while (turn := self._turn_now()) % self._workers != self._rank:
            goes_on = functools.partial(self._is_past, turn)
            if not any(goes_on() for _ in range(_LOOKS_AT_TURN)):
                self._peer_wait.wait(goes_on, functools.partial(self._who_has, turn))

    def _turn_now(self) -> int:
        return read(self._words, self._turn_word)

    def _is_past(self, turn: int) -> bool:
        return self._turn_now() != turn

    def _who_has(self, turn: int) -> list[int]:
        """Return the holder of a turn; none once the turn has passed: it may have ended since."""
        return [] if self._is_past(turn) else [turn % self._workers]
