"""Linux's system calls for memory on NUMA nodes, which Python does not wrap."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Mapping
from typing import TypeAlias

Argument: TypeAlias = "int | ctypes.Array[ctypes.c_ulong] | ctypes.Array[ctypes.c_int] | None"

_X86_64 = {
    "madvise": 28,
    "mbind": 237,
    "set_mempolicy": 238,
    "get_mempolicy": 239,
    "move_pages": 279,
}
_GENERIC = {
    "madvise": 233,
    "mbind": 235,
    "get_mempolicy": 236,
    "set_mempolicy": 237,
    "move_pages": 239,
}
CALL_NUMBERS: Mapping[str, Mapping[str, int]] = {
    "x86_64": _X86_64,
    "aarch64": _GENERIC,
    "riscv64": _GENERIC,
    "loongarch64": _GENERIC,
}

_libc = ctypes.CDLL(None, use_errno=True)


def kernel_call(name: str, *arguments: Argument) -> int:
    """Make the system call of this name; arrays are passed by address.

    Raises OSError as the kernel gives it, ENOSYS for a processor whose calls are not known here.
    """
    number = CALL_NUMBERS.get(os.uname().machine, {}).get(name)
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    words = (ctypes.c_ulong(a) if isinstance(a, int) else a for a in arguments)
    result = int(_libc.syscall(ctypes.c_long(number), *words))
    if result == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
