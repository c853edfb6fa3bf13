"""A thread beside the computing ones, which does one thing of a worker at a time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import final

from knltrain.clocks import Clock
from knltrain.communication.communication_cores import take_place


@final
class Background:
    """Does what it is given in a thread of this name, one after another, while ``clock`` runs.

    The thread runs on the cores that the worker's place keeps for communication, or else on all of
    its cpus, in the gaps of the computing threads.
    """

    def __init__(self, name: str, clock: Clock) -> None:
        self._clock = clock
        self._doing: list[Future[None]] = []
        self._thread = ThreadPoolExecutor(1, name, initializer=take_place)

    def begin(self, work: Callable[[], None]) -> None:
        """Let the thread do ``work`` after what it was given before."""
        self._doing.append(self._thread.submit(self._timed, work))

    def wait(self) -> None:
        """Return when nothing is left to do; raise what the thread could not do.

        What was to come after that is left undone.
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
