"""One worker as its parent sees it: a process, its event pipe and its log."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, final

from knltrain.errors import RunFolderError
from knltrain.launch.events import EventReader


@final
class WorkerProcess:
    """A started worker. Leaving the `with` block kills what is still alive and reaps it.

    The worker leads a session of its own, so that Ctrl-C in a terminal reaches the parent alone
    and the parent decides how the run ends.
    """

    def __init__(
        self,
        rank: int,
        command: Callable[[int], Sequence[str]],
        log: Path,
        kept_fds: Sequence[int] = (),
    ) -> None:
        """Start `command(events_fd)` with stdout and stderr appended to `log`.

        The child inherits `kept_fds` and its end of the event pipe, under the same numbers. Raises
        `RunFolderError` where the log cannot be written.
        """
        self.rank = rank
        self.log = log
        stream = _opened(log)
        read_fd, write_fd = os.pipe()
        self.events = EventReader(read_fd)
        try:
            with stream:
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

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.send_signal(signal.SIGKILL)
        self._process.wait()
        self.events.close()


def _opened(log: Path) -> IO[bytes]:
    try:
        return log.open("ab")
    except OSError as error:
        raise RunFolderError(
            f"{log}: cannot be written ({error.strerror}): make room or check the permissions"
        ) from error
