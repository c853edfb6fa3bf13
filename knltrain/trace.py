"""What the threads of a process do when, for viewers such as Perfetto.

The form is Chrome's trace event format, complete events ("ph": "X"); times are those of the
computer's monotonic clock, in microseconds, so that traces of one computer fit together.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, final

_NO_THREAD: Final = 1 << 22
"""The first number of lines that are no thread's: Linux has none as high."""


@final
class Trace:
    """Events of one process, which viewers show as number ``rank``; for several threads at once."""

    def __init__(self, rank: int, name: str) -> None:
        self._rank = rank
        self._events: list[dict[str, Any]] = [
            {"name": "process_name", "ph": "M", "pid": rank, "args": {"name": name}}
        ]
        self._threads: set[int] = set()
        self._lines: dict[str, int] = {}

    def of(self, what: str, line: str | None = None) -> Callable[[float, float], None]:
        """Return what takes down that ``what`` went on from a begin to an end, in seconds.

        It is shown in the line of the thread that takes it down, or in another, ``line``.
        """

        own = None if line is None else self._lines.setdefault(line, _NO_THREAD + len(self._lines))

        def note(begin: float, end: float) -> None:
            thread = threading.get_native_id() if own is None else own
            if thread not in self._threads:
                self._threads.add(thread)
                name = threading.current_thread().name if line is None else line
                self._note("thread_name", "M", thread, args={"name": name})
            self._note(what, "X", thread, ts=1e6 * begin, dur=1e6 * (end - begin))

        return note

    def write(self, path: Path) -> None:
        """Write all events; the file is whole or not there. Raises OSError."""
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            partial.write_text(json.dumps({"traceEvents": self._events}), encoding="utf-8")
            partial.replace(path)
        except OSError:
            with suppress(OSError):
                partial.unlink()
            raise

    def _note(self, name: str, phase: str, thread: int, **more: Any) -> None:
        self._events.append({"name": name, "ph": phase, "pid": self._rank, "tid": thread, **more})
