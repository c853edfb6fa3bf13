"""A temporary folder that is removed even when the process that made it is killed.

A second process, the remover, reads from a pipe whose other end the writers of the folder hold. The
kernel closes that end for processes that are killed. When the last one is closed, the remover
deletes the folder.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from knltrain.errors import RunFolderError
from knltrain.launch.signals import STOPPING

PREFIX = "knltrain-"


@dataclass(frozen=True, slots=True)
class TemporaryFolder:
    """Processes that write into `path` keep `fd` open, so it is removed only after their end."""

    path: Path
    fd: int


@contextmanager
def temporary_folder() -> Iterator[TemporaryFolder]:
    """Make a folder where the system keeps temporary files (TMPDIR), and remove it at the end.

    Raises RunFolderError when it cannot be made.
    """
    path = Path(tempfile.gettempdir()) / f"{PREFIX}{secrets.token_hex(8)}"
    # In a session of its own, so that what ends this process's group does not end the remover.
    with subprocess.Popen(
        [sys.executable, "-m", __name__, str(path)], stdin=subprocess.PIPE, start_new_session=True
    ) as remover:
        assert remover.stdin is not None
        _make(path)
        try:
            yield TemporaryFolder(path, remover.stdin.fileno())
        finally:
            shutil.rmtree(path)
            remover.kill()  # not where that failed: the remover tries again then


def _make(path: Path) -> None:
    try:
        path.mkdir(mode=0o700)
    except OSError as error:
        raise RunFolderError(
            f"cannot make the temporary folder '{path}': {error.strerror}: set TMPDIR to a folder "
            "that can be written"
        ) from error


def main() -> None:
    """Remove the folder named by the only argument, once all writers have closed stdin's pipe."""
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)
    os.read(0, 1)
    shutil.rmtree(sys.argv[1], ignore_errors=True)


if __name__ == "__main__":
    main()
