"""Files that are all there: no FIFO, which is waited for, and no device, which never ends."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from stat import S_ISDIR, S_ISFIFO, S_ISREG
from typing import Final

MOST_BYTES: Final = 2**30
"""Of a file that is read into memory whole."""


def regular(path: Path) -> Path:
    """The path itself, of a regular file or a folder; OSError for what is neither, or not there."""
    mode = path.stat().st_mode
    if not (S_ISREG(mode) or S_ISDIR(mode)):
        raise OSError(errno.EINVAL, "it is a FIFO, a socket or a device, no regular file", path)
    return path


def content_of(path: Path) -> bytes:
    """The bytes of a file, or of a pipe that a program writes to.

    A FIFO that no program writes to is empty. Raises OSError for a device, and for more than
    `MOST_BYTES` of a file; of a pipe so many are read.
    """
    with open(path, "rb", opener=_at_once) as file:
        state = os.fstat(file.fileno())
        if S_ISFIFO(state.st_mode):
            os.set_blocking(file.fileno(), True)
            return file.read(MOST_BYTES)
        if not S_ISREG(state.st_mode):
            raise OSError(errno.EINVAL, "it is a device, no regular file", path)
        if state.st_size > MOST_BYTES:
            told = f"it has {state.st_size:,} bytes, more than {MOST_BYTES:,}"
            raise OSError(errno.EFBIG, told, path)
        return file.read()


def _at_once(path: str, flags: int) -> int:
    """Open without waiting for a FIFO's writer."""
    return os.open(path, flags | os.O_NONBLOCK)
