"""Parts of files that the kernel is asked to read before they are needed."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def read_ahead(path: Path, begin: int, size: int) -> None:
    """Let the kernel read `size` bytes from `begin` on into the page cache, in one piece.

    Nothing waits for them. It is a wish: what cannot be read will be told by who reads it.
    """
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.posix_fadvise(descriptor, begin, size, os.POSIX_FADV_WILLNEED)
        finally:
            os.close(descriptor)
