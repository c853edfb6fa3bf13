"""What workers tell their parent while they run: one JSON object a line, one pipe a worker."""

from __future__ import annotations

import json
import os
import time
from typing import Any, Final, final

Event = dict[str, Any]
"""One line. `event` says which kind it is, `at_seconds` when it was sent (monotonic clock)."""

PROGRESS_PERIOD_SECONDS: Final = 0.1


@final
class EventWriter:
    """A worker's end of its event pipe."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._next_progress_seconds = 0.0

    def send(self, event: str, **fields: object) -> None:
        """Tell the parent `event`. Says nothing when the parent is gone: nobody is left to tell."""
        line = json.dumps({"event": event, "at_seconds": time.monotonic(), **fields}) + "\n"
        remaining = memoryview(line.encode())
        try:
            while remaining:
                remaining = remaining[os.write(self._fd, remaining) :]
        except BrokenPipeError:
            return

    def progress_is_due(self, *, last: bool) -> bool:
        """Whether to send a progress event now: ten times a second, and for the last step."""
        now = time.monotonic()
        if not last and now < self._next_progress_seconds:
            return False
        self._next_progress_seconds = now + PROGRESS_PERIOD_SECONDS
        return True


@final
class EventReader:
    """The parent's end: whole lines out of whatever bytes have arrived. Never waits."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self.at_end = False
        self._partial = b""

    def read(self) -> list[Event]:
        """Events that arrived since the last call. A last line cut short by a death is dropped."""
        while not self.at_end:
            try:
                chunk = os.read(self.fd, 65536)
            except BlockingIOError:
                break
            self._partial += chunk
            self.at_end = not chunk
        *lines, self._partial = self._partial.split(b"\n")
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self.fd)
