"""Shared memory without a name: no other process can open it, and nothing is left behind."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Literal, TypeAlias

from knltrain.errors import SegmentError

FLOAT_BYTES = 4
HUGE_PAGE_BYTES = 2 * 2**20

_HUGE_FROM_BYTES = 2**20
"""Vectors from this on begin at huge pages."""


def page_bytes_for(size: int) -> int:
    """The pages that vectors of ``size`` float32 elements are to begin at."""
    return HUGE_PAGE_BYTES if size * FLOAT_BYTES >= _HUGE_FROM_BYTES else mmap.PAGESIZE


FileKind: TypeAlias = Literal["shm", "memfd", "hugetlb"]

_MEMORY_FIGURES = Path("/proc/meminfo")
_HUGE_PAGE_POOL = Path("/sys/kernel/mm/hugepages/hugepages-2048kB")


def create(kind: FileKind, directory: Path, bytes_: int, name: str = "knltrain") -> int:
    """Return the descriptor of a new file of ``bytes_`` zeros that holds no memory yet.

    - ``shm`` is an unlinked file in ``directory``, a tmpfs.
    - ``memfd`` is in no mounted file system; the kernel shows it under ``name``.
    - ``hugetlb`` is a memfd in the pool of huge pages.

    Raises SegmentError, before anything is written, if the file system (``shm``), the machine
    (``memfd``) or the pool (``hugetlb``) has less than ``bytes_`` free.
    """
    try:
        free_bytes = _free_bytes(kind, directory)
        if free_bytes < bytes_:
            places = {"shm": directory, "memfd": "memory", "hugetlb": "the pool of huge pages"}
            raise SegmentError(
                f"the workers need {bytes_} bytes of shared memory, but {places[kind]} has "
                f"{free_bytes} bytes free; {_way_out(kind, directory)}"
            )
        return _open(kind, directory, bytes_, name)
    except OSError as error:
        raise SegmentError(
            f"no shared memory of kind '{kind}' in {directory}: {error.strerror}; "
            f"{_way_out(kind, directory)}"
        ) from None


def reserve(fd: int, offset: int, bytes_: int) -> None:
    """Allocate the pages of a part of the file now, on the NUMA node of the calling thread.

    Raises SegmentError if there are none left. Without this a first write would raise SIGBUS.
    """
    try:
        os.posix_fallocate(fd, offset, bytes_)
    except OSError as error:
        raise SegmentError(
            f"cannot reserve {bytes_} bytes of shared memory: {error.strerror}; {way_to_more(fd)}"
        ) from None


def way_to_more(fd: int) -> str:
    """Return advice for when memory runs out that was free when the file was made."""
    place = "the pool of huge pages" if is_in_huge_pages(fd) else "/dev/shm"
    return (
        f"another program may have taken what was free; give back shared memory, or enlarge {place}"
    )


def is_in_huge_pages(fd: int) -> bool:
    """Whether the file's memory comes from the pool of huge pages."""
    return os.fstatvfs(fd).f_bsize == HUGE_PAGE_BYTES


def _free_bytes(kind: FileKind, directory: Path) -> int:
    if kind == "shm":
        system = os.statvfs(directory)
        return system.f_bavail * system.f_frsize
    if kind == "hugetlb":
        # Pages reserved for other mappings still count as free.
        free, promised = (
            int((_HUGE_PAGE_POOL / name).read_text())
            for name in ("free_hugepages", "resv_hugepages")
        )
        return (free - promised) * HUGE_PAGE_BYTES
    figures = dict(line.split(":") for line in _MEMORY_FIGURES.read_text().splitlines())
    return int(figures["MemAvailable"].split()[0]) * 1024


def _open(kind: FileKind, directory: Path, bytes_: int, name: str) -> int:
    if kind == "shm":
        fd = os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_EXCL | os.O_CLOEXEC, 0o600)
    else:
        huge = os.MFD_HUGETLB | os.MFD_HUGE_2MB if kind == "hugetlb" else 0
        fd = os.memfd_create(name, os.MFD_CLOEXEC | huge)
    os.ftruncate(fd, bytes_)
    return fd


def _way_out(kind: FileKind, directory: Path) -> str:
    if kind == "memfd":
        return "use fewer workers, or free memory"
    if kind == "hugetlb":
        return (
            "set pages of 2 MiB aside on the nodes of the workers (as root: write their number to "
            "/sys/devices/system/node/nodeN/hugepages/hugepages-2048kB/nr_hugepages), or set "
            'exchange.segment = "shm"'
        )
    return (
        f"enlarge it (mount -o remount,size=... {directory}; docker run --shm-size=...), "
        'or set exchange.segment = "memfd"'
    )
