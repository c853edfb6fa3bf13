"""Shared memory without a name: nobody else can open it, and no end can leave it behind."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, TypeAlias

from knltrain.errors import SegmentError

FileKind: TypeAlias = Literal["shm", "memfd"]

_MEMORY_FIGURES = Path("/proc/meminfo")


def create(kind: FileKind, directory: Path, bytes_: int) -> int:
    """Return the descriptor of a new file of ``bytes_`` zeros that holds no memory yet.

    ``shm`` lies in ``directory`` (a tmpfs) under no name, ``memfd`` outside every mounted file
    system. Raises SegmentError, before anything is written, if the file system (``shm``) or the
    machine (``memfd``) has less than that free.
    """
    try:
        free_bytes = _free_bytes(kind, directory)
        if free_bytes < bytes_:
            place = str(directory) if kind == "shm" else "memory"
            raise SegmentError(
                f"the workers need {bytes_} bytes of shared memory, but {place} has {free_bytes} "
                f"bytes free; {_way_out(kind, directory)}"
            )
        return _open(kind, directory, bytes_)
    except OSError as error:
        raise SegmentError(
            f"no shared memory of kind '{kind}' in {directory}: {error.strerror}; "
            f"{_way_out(kind, directory)}"
        ) from None


def reserve(fd: int, offset: int, bytes_: int) -> None:
    """Take the memory of a part of the file now, from the NUMA node of the calling thread.

    Raises SegmentError if there is none, where a first write would end in SIGBUS.
    """
    try:
        os.posix_fallocate(fd, offset, bytes_)
    except OSError as error:
        raise SegmentError(
            f"cannot reserve {bytes_} bytes of shared memory: {error.strerror}; another "
            "program may have taken what was free; give back shared memory, or enlarge /dev/shm"
        ) from None


def _free_bytes(kind: FileKind, directory: Path) -> int:
    if kind == "shm":
        system = os.statvfs(directory)
        return system.f_bavail * system.f_frsize
    figures = dict(line.split(":") for line in _MEMORY_FIGURES.read_text().splitlines())
    return int(figures["MemAvailable"].split()[0]) * 1024


def _open(kind: FileKind, directory: Path, bytes_: int) -> int:
    if kind == "shm":
        fd = os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_EXCL | os.O_CLOEXEC, 0o600)
    else:
        fd = os.memfd_create("knltrain", os.MFD_CLOEXEC)
    os.ftruncate(fd, bytes_)
    return fd


def _way_out(kind: FileKind, directory: Path) -> str:
    if kind == "memfd":
        return "use fewer workers, or free memory"
    return (
        f"enlarge it (mount -o remount,size=... {directory}; docker run --shm-size=...), "
        'or set exchange.segment = "memfd"'
    )
