"""Asks the kernel for the NUMA node of single pages (move_pages(2), which then moves none)."""

from __future__ import annotations

import ctypes
import errno
from array import array
from collections.abc import Iterator, Sequence

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
