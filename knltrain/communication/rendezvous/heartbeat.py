"""Signs of life: who gives none for longer than others would wait for it stands still.

The kernel of a computer keeps the connections of a process that is stopped. So each process says
now and then that it runs, by a thread that its work does not hold up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Final, final

from knltrain.communication.shared_memory.stillness import Stillness

_BEATS: Final = 8
"""In a time limit, at least."""

_LONGEST_PAUSE_SECONDS: Final = 1.0


@final
class Heartbeat:
    """Calls ``beat()`` now and then, and ``silent(rank)`` for one that lets hear nothing for long.

    That is for ``limit_seconds`` in which this process itself was not stopped, and a beat more, so
    that nobody is named that has stood still for less. Only those of the ``ranks()`` that are there
    count that have been `heard` before. Both are called by a thread of its own, until `close`.
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
        """Note that a rank has given a sign of life; any thread may."""
        self._heard.add(rank)

    def close(self) -> None:
        """Give no more signs, and expect none."""
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
