"""Files that are there whole or not at all, after a loss of power and on disks that fill up, too.

Some of them a run must have left at its end.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, final


def write_whole(path: Path, text: str) -> None:
    """Write all of `text` or nothing, so that no reader ever sees half a file.

    Raises OSError, and leaves what was there before and nothing beside it.
    """
    write_whole_bytes(path, [text.encode()])


def write_whole_bytes(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """As `write_whole`, of bytes that follow each other."""
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("wb") as file:
            file.writelines(parts)
        sync(partial)
        partial.replace(path)
        sync(path.parent)
    except OSError:
        with suppress(OSError):
            partial.unlink()
        raise


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk.

    An OSError is final: what the kernel could not write it may have dropped, and a second try would
    find nothing left to write. The file is to be written anew.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some systems of files know no such thing for folders
            raise
    finally:
        os.close(descriptor)


def reason_of(error: Exception) -> str:
    """Why something could not be written or read, as the system puts it."""
    return getattr(error, "strerror", None) or str(error)


CHECKPOINT: Final = "checkpoint"
RESULT: Final = "result.json"


RETRY_SECONDS = 5.0
"""From a failed write to the next try: a full disk must not cost a system call in every step."""

MOST_WAITING_BYTES = 4 * 2**20
"""Some 20,000 records of a log; further ones are lost."""


@final
class PatientFile:
    """A file that is appended to, opened with the first byte.

    Nothing here raises for a file that cannot be written. What is to be in it waits in memory and
    goes out with a later write; half a record that fitted is then followed by its other half.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None
        self._waiting = bytearray()
        self._since_step = 0
        self._next_step = 0
        self._last_step = 0
        self._removed_before_step: int | None = None
        self._lost = False
        self._cause = ""
        self._next_try_seconds = 0.0

    @property
    def lacks(self) -> str:
        """What is not in the file, and why; empty where nothing is missing."""
        found = []
        if (removed := self._removed_before_step) is not None:
            found.append(
                f"what was recorded before step {removed} is missing (the file was removed)"
            )
        if self._cause or self._lost:
            why = f" ({self._cause})" if self._cause else ""
            kept = "is missing" if self._lost else "waits to be written"
            found.append(f"what was recorded since step {self._since_step} {kept}{why}")
        return "; ".join(found)

    def append(self, content: bytes, step: int) -> None:
        """Append one record, made after `step` steps."""
        if not (self._cause or self._lost):
            self._since_step = step
        if not self._waiting:
            self._next_step = step
        self._last_step = step
        if len(self._waiting) + len(content) > MOST_WAITING_BYTES:
            self._lost = True
        else:
            self._waiting += content
        if time.monotonic() >= self._next_try_seconds:
            self.write_out()

    def write_out(self) -> None:
        """Try now to write what waits."""
        try:
            self._write_out()
        except OSError as error:
            self._cause = reason_of(error)
            self._next_try_seconds = time.monotonic() + RETRY_SECONDS
            self._let_go()  # opened anew it may be there again
        else:
            self._cause = ""

    def close(self) -> None:
        """Write what waits, see it to the disk and close the file; it may be closed twice."""
        if self._waiting:
            self.write_out()
        if self._descriptor is None:
            return
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            self._cause, self._lost = reason_of(error), True
        self._let_go()

    def _write_out(self) -> None:
        if self._descriptor is not None and os.fstat(self._descriptor).st_nlink == 0:
            self._removed_before_step = self._next_step
            self._let_go()
        if self._descriptor is None:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._descriptor = os.open(self.path, flags, 0o644)
        while self._waiting:
            written = os.write(self._descriptor, self._waiting)
            del self._waiting[:written]
        self._next_step = self._last_step + 1

    def _let_go(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with suppress(OSError):  # what it would tell is known by now
                os.close(descriptor)
