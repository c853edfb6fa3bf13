"""Heartbeats: a process that sends none for longer than the time limit counts as stopped.

The kernel keeps the connections of a stopped process open. So each process sends a heartbeat now
and then, by a thread that its work does not hold up.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, final

from knltrain.communication.shared_memory.polling import Stillness

_BEATS: Final = 8
"""The least number of heartbeats in a time limit."""

_LONGEST_PAUSE_SECONDS: Final = 1.0

MOST_FIGURES: Final = 8


class Figures(ABC):
    """Numbers that heartbeats carry from each rank to those that it is connected to.

    Threads of the failure detector call both methods, maybe at once.
    """

    @abstractmethod
    def for_rank(self, rank: int) -> Sequence[float]:
        """Return the newest numbers for a rank, at most MOST_FIGURES."""

    @abstractmethod
    def from_rank(self, rank: int, figures: Sequence[float]) -> None:
        """Take the newest numbers of a rank, if it has sent any."""


def carrying(figures: Sequence[float]) -> dict[str, list[float]]:
    """Return the numbers as a part of a heartbeat; nothing if one of them is not finite."""
    found = list(map(float, figures))[:MOST_FIGURES]
    return {"figures": found} if all(map(math.isfinite, found)) else {}


def figures_in(beat: Mapping[str, Any]) -> list[float]:
    """Return the numbers that a heartbeat carries; none unless all are numbers and they are few."""
    found = beat.get("figures")
    if not isinstance(found, list) or len(found) > MOST_FIGURES:
        return []
    return list(map(float, found)) if all(type(each) in (int, float) for each in found) else []


@final
class Heartbeat:
    """Calls ``beat()`` now and then, and ``silent(rank)`` for a rank without heartbeats for long.

    A rank is silent after ``limit_seconds`` plus one interval between heartbeats, so that no rank
    is reported that was stopped for less. Time in which this process itself was stopped does not
    count. Only those of ``ranks()`` count that have been `heard` before. A thread of its own calls
    both, until `close`.
    """

    def __init__(
        self,
        limit_seconds: float,
        beat: Callable[[], None],
        ranks: Callable[[], Iterable[int]],
        silent: Callable[[int], None],
    ) -> None:
        self._pause_seconds = min(limit_seconds / _BEATS, _LONGEST_PAUSE_SECONDS)
        self._limit_seconds = limit_seconds + self._pause_seconds
        self._beat, self._ranks, self._silent = beat, ranks, silent
        self._stillness: Stillness[int] = Stillness(2 * self._pause_seconds)
        self._heard: set[int] = set()
        self._known: set[int] = set()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="heartbeat", daemon=True)
        self._thread.start()

    def heard(self, rank: int) -> None:
        """Record a heartbeat of a rank; any thread may call this."""
        self._heard.add(rank)

    def close(self) -> None:
        """Send no more heartbeats, and expect none."""
        self._ends.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _go_on(self) -> None:
        while not self._ends.is_set():
            self._beat()
            heard, self._heard = self._heard, set()
            self._known |= heard
            self._stillness.look((self._known - heard).intersection(self._ranks()))
            for rank in self._stillness.still_for(self._limit_seconds):
                self._known.discard(rank)
                self._silent(rank)
            self._ends.wait(self._pause_seconds)
