"""A background thread of a worker, which does one task after another."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import final

from knltrain.clocks import Clock
from knltrain.communication.communication_cores import take_place


@final
class Background:
    """Does tasks in a thread of this name, one after another; ``clock`` runs meanwhile.

    The thread runs on the cores that the worker's placement reserves for communication. Without
    them it runs on all CPUs of the worker, while computing threads are idle.
    """

    def __init__(self, name: str, clock: Clock) -> None:
        self._clock = clock
        self._doing: list[Future[None]] = []
        self._thread = ThreadPoolExecutor(1, name, initializer=take_place)

    def begin(self, work: Callable[[], None]) -> None:
        """Queue ``work`` for the thread."""
        self._doing.append(self._thread.submit(self._timed, work))

    def wait(self) -> None:
        """Return when all tasks are done; raise the error of the first that failed.

        The tasks after that one are cancelled.
        """
        doing, self._doing = self._doing, []
        try:
            for each in doing:
                each.result()
        finally:
            for each in doing:
                each.cancel()

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(cancel_futures=True)

    def _timed(self, work: Callable[[], None]) -> None:
        with self._clock:
            work()
