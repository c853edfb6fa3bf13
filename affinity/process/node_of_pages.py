"""Asks the kernel for the NUMA node of single pages (move_pages(2), which then moves none).

The pages that a process has changed are asked for, too.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from affinity.errors import MemoryPolicyError
from affinity.process import kernel_call

_PAGES_PER_CALL = 1 << 15


def nodes_of(addresses: Sequence[int], pid: int = 0) -> Iterator[int]:
    """The node of the page at each address of a process (0: this one), -1 if it is not in memory.

    Raises MemoryPolicyError where the kernel does not tell, or the memory is not mapped.
    """
    for start in range(0, len(addresses), _PAGES_PER_CALL):
        yield from _ask(addresses[start : start + _PAGES_PER_CALL], pid)


def _ask(addresses: Sequence[int], pid: int) -> Iterator[int]:
    count = len(addresses)
    pages = (ctypes.c_ulong * count).from_buffer(array("L", addresses))
    status = (ctypes.c_int * count)()
    try:
        kernel_call.kernel_call("move_pages", pid, count, pages, None, status, 0)
    except OSError as error:
        raise MemoryPolicyError(
            f"the kernel does not tell where {count} pages from {addresses[0]:#x} on are: "
            f"{error.strerror}; /proc/self/numa_maps may still tell",
            error.errno or 0,
        ) from None
    if -errno.EACCES in status:
        raise MemoryPolicyError("some of these pages may not be looked at", errno.EACCES)
    return (node if node >= 0 else -1 for node in status)


_PRESENT, _OF_A_FILE = 1 << 63, 1 << 61
_BYTES_PER_PAGE = 8


def mapping_ends(pid: int | str = "self") -> dict[int, int]:
    """The address at which each mapping of a process ends, by that at which it begins."""
    with Path(f"/proc/{pid}/maps").open(encoding="utf-8", errors="replace") as lines:
        ranges = (line.split(maxsplit=1)[0].split("-") for line in lines)
        return {int(start, 16): int(end, 16) for start, end in ranges}


def changed_bytes_by_node(start: int, end: int, pid: int | str = "self") -> dict[int, int]:
    """Bytes on each node of the pages from `start` to `end` that are the process's own by now.

    OSError, or MemoryPolicyError, where the kernel does not tell.
    """
    counts = Counter(nodes_of(list(_changed(start, end, pid)), 0 if pid == "self" else int(pid)))
    return {node: count * mmap.PAGESIZE for node, count in sorted(counts.items()) if node >= 0}


def _changed(start: int, end: int, pid: int | str) -> Iterable[int]:
    first, last = start // mmap.PAGESIZE, end // mmap.PAGESIZE
    with Path(f"/proc/{pid}/pagemap").open("rb", buffering=0) as pagemap:
        pagemap.seek(first * _BYTES_PER_PAGE)
        words = array("Q", pagemap.read((last - first) * _BYTES_PER_PAGE))
    return (
        (first + page) * mmap.PAGESIZE
        for page, word in enumerate(words)
        if word & _PRESENT and not word & _OF_A_FILE
    )
