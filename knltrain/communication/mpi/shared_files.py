"""Removal of an MPI library's files in /dev/shm, whose names are unused once all ranks map them.

Intel MPI removes the names once all ranks have mapped a file, MPICH at its end. If a rank died
before that, as in MPI's initialisation or while a window is allocated, they would be left behind.
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
"""A file that is unmapped for less than this may be about to be mapped."""


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
        """Unlink this user's files that no process has mapped for a second: their ranks are dead.

        Returns at once where there are none.
        """
        if abandoned := self._unmapped():
            time.sleep(_AT_REST_SECONDS)
            for path in abandoned & self._unmapped():
                _remove(path)

    def _unmapped(self) -> set[Path]:
        """This user's new files that no process has mapped."""
        own = {path for path in set(_files()) - self._before if _is_own(path)}
        if own:
            mapped = {name for path in Path("/proc").iterdir() for name in _mapped_by(path.name)}
            own = {path for path in own if str(path) not in mapped}
        return own


def _files() -> Iterator[Path]:
    for name in _NAMES:
        yield from FOLDER.glob(name)


def _is_own(path: Path) -> bool:
    with suppress(FileNotFoundError):
        return path.stat().st_uid == os.getuid()
    return False


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
