"""Files that are there whole or not at all, after a loss of power, too.

Some of them a run must have left at its end.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final


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
