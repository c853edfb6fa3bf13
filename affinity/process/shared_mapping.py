"""Maps shared memory at an address where huge pages can be used: Python's mmap takes no address."""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from typing import TYPE_CHECKING

from affinity.errors import MemoryPolicyError
from affinity.process import kernel_call
from affinity.process.mapping import address_of

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

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


def map_shared(fd: int, size: int, alignment: int) -> memoryview:
    """Map the first `size` bytes of a file at a multiple of `alignment`, to be read and written.

    The mapping goes when nothing refers to the returned bytes any more. Raises MemoryPolicyError
    if the file cannot be mapped.
    """
    try:
        start = _map_inside(fd, size, alignment)
    except OSError as error:
        raise MemoryPolicyError(
            f"cannot map {size} bytes of shared memory: {error.strerror}", error.errno or 0
        ) from None
    memory = (ctypes.c_char * size).from_address(start)
    weakref.finalize(memory, _libc.munmap, start, size).atexit = False
    return memoryview(memory).cast("B")


def collapse(memory: WriteableBuffer) -> bool:
    """Have huge pages put in place of small ones; whether the kernel could do that.

    `memory` has been touched, and begins at a huge page. What it holds does not change.
    """
    size = memoryview(memory).nbytes
    try:
        kernel_call.kernel_call("madvise", address_of(memory), size, _MADV_COLLAPSE)
    except OSError:
        return False
    return True


def _map_inside(fd: int, size: int, alignment: int) -> int:
    # The kernel aligns to its own pages only: reserve more, and map the file inside of that.
    reserved_bytes = _whole_pages(size + alignment)
    nothing = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    reserved = _map(None, reserved_bytes, _PROT_NONE, nothing, -1)
    start = -(-reserved // alignment) * alignment
    end = start + _whole_pages(size)
    try:
        _map(start, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | _MAP_FIXED, fd)
    except OSError:
        _libc.munmap(reserved, reserved_bytes)
        raise
    for begin, until in ((reserved, start), (end, reserved + reserved_bytes)):
        if until > begin:
            _libc.munmap(begin, until - begin)
    return start


def _map(address: int | None, size: int, protection: int, flags: int, fd: int) -> int:
    found: int | None = _libc.mmap(address, size, protection, flags, fd, 0)
    if found is None or found == _FAILED:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return found


def _whole_pages(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
