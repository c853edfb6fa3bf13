"""The progress thread of an exchange, which runs while its worker computes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import final

from knltrain.clocks import Clock

_YIELDS = 10
_SHORTEST_NAP_SECONDS = 20e-6
LONGEST_NAP_SECONDS = 500e-6


@final
class Progress:
    """Calls ``step`` repeatedly as long as there is work.

    - When ``is_idle``, it sleeps until ``changed`` is notified.
    - When a step has to wait for other ranks, it yields its core between steps, then sleeps, with
      exponential backoff.
    - It notifies ``changed`` after each step that did something.
    - ``failure`` is the error of a step; no steps follow it.

    ``clock`` runs while there is work; it may be replaced.
    """

    def __init__(
        self,
        step: Callable[[], bool],
        is_idle: Callable[[], bool],
        changed: threading.Condition,
        name: str,
    ) -> None:
        self._step, self._is_idle, self._changed = step, is_idle, changed
        self.clock = Clock()
        self._ended = False
        self.failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """End the thread after the current step."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        try:
            while self._is_wanted():
                clock = self.clock
                with clock:
                    self._work(clock)
        except Exception as error:  # noqa: BLE001 (raised by the calls that wait for the exchange)
            with self._changed:
                self.failure = error
                self._changed.notify_all()

    def _is_wanted(self) -> bool:
        """Wait for work; return False at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or not self._is_idle())
            return not self._ended

    def _work(self, clock: Clock) -> None:
        """Take steps until there is no work, or the clock is replaced."""
        idle_steps = 0
        while not self._ended and self.clock is clock:
            if self._step():
                idle_steps = 0
                with self._changed:
                    self._changed.notify_all()
                continue
            with self._changed:
                if self._is_idle():
                    return
            idle_steps += 1
            _rest(idle_steps)


def _rest(idle_steps: int) -> None:
    if idle_steps <= _YIELDS:
        os.sched_yield()
        return
    doublings = min(idle_steps - _YIELDS, 10)
    time.sleep(min(_SHORTEST_NAP_SECONDS * 2**doublings, LONGEST_NAP_SECONDS))
