"""The thread that does a group's operations; another one replaces it before it blocks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import final

LONGEST_PATIENCE_SECONDS = 5.0
_PART_OF_THE_LIMIT = 0.25


@final
class Server(threading.Thread):
    """A thread that does operations; `step_aside` replaces it by another.

    Between operations it runs callbacks of futures, at the same place in the order at all ranks.
    Operations that a callback calls are done at once.
    """

    def __init__(self, name: str, serve: Callable[[], None], replace: Callable[[], None]) -> None:
        super().__init__(target=serve, name=name, daemon=True)
        self.step_aside = replace


def step_aside() -> None:
    """If this thread does operations, replace it by another: it is about to wait for one."""
    thread = threading.current_thread()
    if isinstance(thread, Server):
        thread.step_aside()


def peer_wait(limit_seconds: float) -> float:
    """Return how long operations wait for a future's callback, given the limit of one."""
    return min(LONGEST_PATIENCE_SECONDS, _PART_OF_THE_LIMIT * limit_seconds)
