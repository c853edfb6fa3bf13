"""Mapping a shared file where huge pages can be used: Python's own mmap takes no address."""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref

from knltrain.errors import SegmentError

_MADV_COLLAPSE = 25  # Linux 6.1; whatever /sys says of transparent huge pages in shared memory.
_MAP_FIXED, _PROT_NONE = 0x10, 0
_FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int),
    ctypes.c_long,
)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def map_shared(fd: int, bytes_: int, alignment: int) -> memoryview:
    """Map the first ``bytes_`` of a file at a multiple of ``alignment``, to be read and written.

    The mapping goes when nothing refers to the returned bytes any more. Raises SegmentError.
    """
    # The kernel aligns to its own pages only: reserve more, and map the file inside of that.
    anonymous = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    reserved = _map(None, bytes_ + alignment, _PROT_NONE, anonymous, -1)
    start = -(-reserved // alignment) * alignment
    end = start + _whole(bytes_)
    both = mmap.PROT_READ | mmap.PROT_WRITE
    _map(start, bytes_, both, mmap.MAP_SHARED | _MAP_FIXED, fd)
    for begin, until in ((reserved, start), (end, reserved + _whole(bytes_ + alignment))):
        if until > begin:
            _libc.munmap(begin, until - begin)
    memory = (ctypes.c_char * bytes_).from_address(start)
    weakref.finalize(memory, _libc.munmap, start, bytes_).atexit = False
    return memoryview(memory).cast("B")


def collapse(memory: memoryview) -> bool:
    """Have huge pages put in place of small ones; whether the kernel could do that.

    ``memory`` has been touched, and begins at a huge page.
    """
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    return int(_libc.madvise(address, memory.nbytes, _MADV_COLLAPSE)) == 0


def _map(address: int | None, bytes_: int, protection: int, flags: int, fd: int) -> int:
    found: int | None = _libc.mmap(address, bytes_, protection, flags, fd, 0)
    if found is None or found == _FAILED:
        reason = os.strerror(ctypes.get_errno())
        raise SegmentError(f"cannot map {bytes_} bytes of shared memory: {reason}")
    return found


def _whole(bytes_: int) -> int:
    return -(-bytes_ // mmap.PAGESIZE) * mmap.PAGESIZE
