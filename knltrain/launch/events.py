"""Events that workers send to their parent: one JSON object a line, one pipe a worker."""

from __future__ import annotations

import fcntl
import json
import os
import select
import sys
import termios
import time
from itertools import islice
from typing import Any, Final, final

from knltrain.communication.control_message import checked
from knltrain.data.source import SKIPPED

Event = dict[str, Any]
"""One line. `event` says which kind it is, `at_seconds` when it was sent (monotonic clock)."""

PROGRESS_PERIOD_SECONDS: Final = 0.1

LONGEST_WAIT_SECONDS: Final = 600.0
"""How long a worker with a message that must arrive waits for a parent that reads nothing."""

LONGEST_LINE_BYTES: Final = 2**24
MOST_SKIPPED_TOLD: Final = 10_000
"""Broken pictures that a process names, so that a line is not longer."""

_FIELDS: Final[dict[str, dict[str, tuple[type, ...]]]] = {
    "error": {
        "kind": (str,),
        "message": (str,),
        "step": (int, type(None)),
        "exit_code": (int,),
        "at_seconds": (float, int),
    },
    "done": {"result": (dict,)},
    "skipped": {"pictures": (dict,)},
}
"""What the parent relies on, by kind of event."""

_F_GETPIPE_SZ: Final = 1032  # fcntl.F_GETPIPE_SZ, which Python 3.10 does not know everywhere

_DISPENSABLE: Final = frozenset({"progress", "evaluation", "compiling"})
"""Events that a parent may miss that is suspended, or stuck in writing to a terminal."""


@final
class EventWriter:
    """A worker's end of its event pipe.

    Progress and evaluations never make the worker wait: they may fill a quarter of the pipe, and
    are dropped while the parent reads nothing. The rest is for messages that must arrive: more
    than half of the pipe's bytes, as a line that does not fit into a page leaves its end empty.
    """

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._next_progress_seconds = 0.0

    def send(self, event: str, **fields: object) -> None:
        """Send `event` to the parent. Does nothing when the parent is gone."""
        fields = {"event": event, "at_seconds": time.monotonic(), **fields}
        line = (json.dumps(fields, allow_nan=False) + "\n").encode()
        if event in _DISPENSABLE and self._unread_bytes() + len(line) > self._capacity() // 4:
            return
        try:
            self._write(line)
        except BrokenPipeError:
            return

    def send_skipped(self) -> None:
        """Tell of the broken pictures that this process has skipped, if there were any."""
        if SKIPPED:
            named = islice(SKIPPED.reasons.items(), MOST_SKIPPED_TOLD)
            self.send("skipped", pictures=dict(named))

    def _write(self, line: bytes) -> None:
        deadline = time.monotonic() + LONGEST_WAIT_SECONDS
        room = select.poll()
        room.register(self._fd, select.POLLOUT)
        remaining = memoryview(line)
        while remaining:
            try:
                remaining = remaining[os.write(self._fd, remaining) :]
            except BlockingIOError:
                if not room.poll(max(0.0, deadline - time.monotonic()) * 1000):
                    raise TimeoutError(
                        f"the parent process has read nothing for {LONGEST_WAIT_SECONDS:g} s"
                    ) from None

    def _unread_bytes(self) -> int:
        unread = fcntl.ioctl(self._fd, termios.FIONREAD, bytes(4))
        return int.from_bytes(unread, sys.byteorder)

    def _capacity(self) -> int:
        return fcntl.fcntl(self._fd, _F_GETPIPE_SZ)

    def progress_is_due(self, *, last: bool) -> bool:
        """Whether to send a progress event now: ten times a second, and for the last step."""
        now = time.monotonic()
        if not last and now < self._next_progress_seconds:
            return False
        self._next_progress_seconds = now + PROGRESS_PERIOD_SECONDS
        return True


@final
class EventReader:
    """The parent's end: whole lines out of whatever bytes have arrived. Never waits.

    A line that is no event, such as a library's own message, counts as an error of the worker.
    """

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
        if len(self._partial) > LONGEST_LINE_BYTES:
            lines, self._partial = [*lines, self._partial], b""
        return [_event(line) for line in lines]

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self.fd)


def _event(line: bytes) -> Event:
    try:
        found = checked(json.loads(line), {"event": (str,)})
        return checked(found, _FIELDS.get(found["event"], {}))
    except (ValueError, RecursionError):
        return {
            "event": "error",
            "at_seconds": time.monotonic(),
            "kind": "WorkerFailed",
            "message": f"it wrote {line[:60]!r} where its parent expects events: only the worker "
            "itself may write to that descriptor",
            "step": None,
            "exit_code": 1,
        }
