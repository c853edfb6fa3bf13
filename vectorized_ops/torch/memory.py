"""Memory that the process keeps, so that a training step causes no page faults."""

from __future__ import annotations

import ctypes
import mmap
import os

from vectorized_ops.errors import OperationError

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
"""What mallopt(3) calls M_TRIM_THRESHOLD and M_MMAP_MAX."""

_HUGE_PAGES, _HUGE_PAGE_BYTES = 14, 2 << 20
"""What madvise(2) calls MADV_HUGEPAGE, and the size of such pages on x86-64."""

_LEAST_BYTES = 64 << 20


def keep_memory(huge_pages: bool = True) -> None:
    """Let the whole process keep the memory that it frees, and ask for huge pages for its heap.

    By default glibc gives every large block back to the system as soon as it is freed. A training
    step allocates and frees all its activations, and the system clears each page before it hands it
    out again: 20 to 30 % of a step of PyTorch. With this setting a process keeps its memory until
    it ends, whichever library allocated it, and freeing tensors does not give it back. Huge pages
    are requested for the half of the machine's memory that the heap grows into next; none of it is
    taken before it is used. A second call changes nothing.

    Raises OperationError where the C library has no mallopt(3), as those other than glibc.
    Allocators loaded in its place (jemalloc, tcmalloc) have settings of their own.
    """
    library = ctypes.CDLL(None)
    try:
        mallopt = library.mallopt
    except AttributeError:
        raise OperationError(
            "keep_memory was requested, but this C library has no mallopt: expected glibc; call "
            "optimize(model, keep_memory=False), and set the allocator that is in use instead"
        ) from None
    never, none = -1, 0
    mallopt(_TRIM_THRESHOLD, never)
    mallopt(_MMAP_MAX, none)
    if huge_pages and not _asked:
        _asked.append(_ask_for_huge_pages(library))


_asked: list[int] = []
"""The bytes for which huge pages were asked for, once they have been."""


def _ask_for_huge_pages(library: ctypes.CDLL) -> int:
    """Let the heap grow as far as the system allows, and shrink again: the advice stays."""
    library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    library.free.argtypes = [ctypes.c_void_p]
    library.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    size = os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE // 2
    block = library.malloc(size)
    while not block and size > _LEAST_BYTES:
        size //= 2
        block = library.malloc(size)
    if not block:
        return 0
    first = -(-block // _HUGE_PAGE_BYTES) * _HUGE_PAGE_BYTES
    length = (block + size - first) // _HUGE_PAGE_BYTES * _HUGE_PAGE_BYTES
    refused = library.madvise(first, length, _HUGE_PAGES)
    library.free(block)
    return 0 if refused else int(length)
