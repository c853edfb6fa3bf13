"""The thread that does a group's operations, and makes room for another before it waits itself."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import final

LONGEST_PATIENCE_SECONDS = 5.0
_PART_OF_THE_LIMIT = 0.25


@final
class Server(threading.Thread):
    """A thread that does operations; ``step_aside`` puts another in its place.

    What futures are to call when an operation is done, it calls in between, at the same place in
    the order of operations at all ranks. Operations that are asked for there it does at once.
    """

    def __init__(self, name: str, serve: Callable[[], None], replace: Callable[[], None]) -> None:
        super().__init__(target=serve, name=name, daemon=True)
        self.step_aside = replace


def step_aside() -> None:
    """Have another thread do operations if this one does, as it is about to wait for one."""
    thread = threading.current_thread()
    if isinstance(thread, Server):
        thread.step_aside()


def peer_wait(limit_seconds: float) -> float:
    """Return how long operations wait for what a future calls, given the limit of one."""
    return min(LONGEST_PATIENCE_SECONDS, _PART_OF_THE_LIMIT * limit_seconds)
