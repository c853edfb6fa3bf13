"""A worker as seen by its parent: a process, its event pipe and its log."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Final, final

from knltrain.communication.shared_memory.process_identity import Sight
from knltrain.errors import RunFolderError
from knltrain.launch.events import EventReader

LONGEST_END_SECONDS: Final = 10.0
"""How long a killed process may take to begin to end, before it is left to the kernel."""

_LOOK_SECONDS = 0.2
_HELD_LOOKS = 5
"""A killed process counts as held after so many checks in a row, at this distance: its group may be
thawing it."""


@final
class WorkerProcess:
    """A started worker. Leaving the `with` block kills what is still alive and reaps it.

    `sight` observes its process, while that is alive and after.

    The worker leads a session of its own, so that Ctrl-C in a terminal reaches the parent alone
    and the parent decides how the run ends.
    """

    def __init__(
        self,
        rank: int,
        command: Callable[[int], Sequence[str]],
        log: Path,
        kept_fds: Sequence[int] = (),
        unheard: Sequence[signal.Signals] = (),
    ) -> None:
        """Start `command(events_fd)` with stdout and stderr appended to `log`.

        The child inherits `kept_fds` and its end of the event pipe, under the same numbers. It
        starts with the signals `unheard` blocked, so they have no effect from its first moment on,
        in any library. Raises `RunFolderError` where the log cannot be written.
        """
        self.rank = rank
        self.log = log
        self._held_looks, self._held_at = 0, 0.0
        stream = _opened(log)
        read_fd, write_fd = os.pipe()
        self.events = EventReader(read_fd)
        try:
            with stream, _blocked(unheard):
                self._process = subprocess.Popen(
                    command(write_fd),
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    pass_fds=(*kept_fds, write_fd),
                    start_new_session=True,
                )
        except BaseException:
            self.events.close()
            raise
        finally:
            os.close(write_fd)
        try:
            self.sight = Sight(self.pid)
        except BaseException:
            self.send_signal(signal.SIGKILL)
            self._process.wait()
            self.events.close()
            raise

    @property
    def pid(self) -> int:
        """Process id, also the id of the worker's session and process group."""
        return self._process.pid

    def exit_code(self) -> int | None:
        """Exit code, negative signal number, or None while the worker lives. Reaps it."""
        return self._process.poll()

    def send_signal(self, number: signal.Signals) -> None:
        """Send `number` to the worker and whatever it started; nothing if it has ended."""
        if self.exit_code() is None:
            os.killpg(self.pid, number)

    def is_held(self, is_late: bool) -> bool:
        """Tell whether something keeps a killed worker from ending: its frozen control group.

        Or, if it is late, a device, say, that does not answer. A worker whose memory is being
        freed, which may take long, is not held. True only after some checks in a row, at any
        intervals.
        """
        now = time.monotonic()
        if self.sight.is_ending() or not (is_late or self.sight.standstill() is not None):
            self._held_looks = 0
        elif now - self._held_at >= _LOOK_SECONDS:
            self._held_looks, self._held_at = self._held_looks + 1, now
        return self._held_looks >= _HELD_LOOKS

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.send_signal(signal.SIGKILL)
        self._await_end()
        self.sight.close()
        self.events.close()

    def _await_end(self) -> None:
        deadline = time.monotonic() + LONGEST_END_SECONDS
        while not self.is_held(time.monotonic() > deadline):
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_LOOK_SECONDS)
                return


@contextmanager
def _blocked(numbers: Sequence[signal.Signals]) -> Iterator[None]:
    """Block signals in this thread, and in the processes that it starts meanwhile."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _opened(log: Path) -> IO[bytes]:
    try:
        return log.open("ab")
    except OSError as error:
        raise RunFolderError(
            f"{log}: cannot be written ({error.strerror}): make room or check the permissions"
        ) from error
