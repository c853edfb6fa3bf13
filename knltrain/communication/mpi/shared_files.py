"""Removal of an MPI library's files in /dev/shm, whose names are unused once all ranks map them.

Intel MPI removes them during its initialisation, MPICH at its end. If a rank died before that, they
would be left behind.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import final

FOLDER = Path("/dev/shm")
_NAMES = ("Intel_MPI_*", "mpich_shm_*", "mpich_shar_tmp*")
_AT_REST_SECONDS = 1.0
"""Files younger than this may be about to be mapped."""


@final
class SharedFiles:
    """The files of MPI libraries that are created from now on, on this computer."""

    def __init__(self) -> None:
        self._before = set(_files())

    def remove_mapped(self) -> None:
        """Unlink the files that this process has mapped; all ranks have them by then."""
        mapped = _mapped_by("self")
        for path in _files():
            if str(path) in mapped:
                _remove(path)

    def remove_abandoned(self) -> None:
        """Unlink this user's files that no process has mapped: their ranks are dead."""
        mapped: set[str] = set()
        for path in Path("/proc").iterdir():
            if path.name.isdigit():
                mapped |= _mapped_by(path.name)
        for path in set(_files()) - self._before:
            with suppress(FileNotFoundError):
                found = path.stat()
                at_rest = time.time() - found.st_mtime > _AT_REST_SECONDS
                if found.st_uid == os.getuid() and at_rest and str(path) not in mapped:
                    _remove(path)


def _files() -> Iterator[Path]:
    for name in _NAMES:
        yield from FOLDER.glob(name)


def _mapped_by(process: str) -> set[str]:
    """Return the paths below FOLDER that a process has mapped; none if access is denied."""
    try:
        lines = Path(f"/proc/{process}/maps").read_text(errors="replace").splitlines()
    except OSError:
        return set()
    return {line.split(maxsplit=5)[5] for line in lines if f" {FOLDER}/" in line}


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
