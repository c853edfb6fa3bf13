"""Whether this process may use AMX's tiles: Linux gives their registers on request only.

Linux, Documentation/arch/x86/xstate.rst, "Using XSTATE features in user space applications".
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import sys
from functools import cache
from typing import Final

_ARCH_PRCTL: Final = 158
_REQUEST_PERMISSION: Final = 0x1023
_TILE_DATA: Final = 18
"""The number of the tiles' registers among the parts of a processor's state."""

_SAID: Final = {
    errno.EINVAL: "Linux 5.16 or later has this request",
    errno.EOPNOTSUPP: "neither this kernel nor its hypervisor offers tiles",
    errno.ENOSPC: "a thread's stack for signals is too small for tiles; Python's faulthandler has "
    "a large one from 3.10.4 on",
}


@cache
def amx_refusal() -> str | None:
    """Ask for the tiles' registers; return the reason why they are refused, None if they are not.

    Asked once in a process, before its first tile: without permission a tile ends the process by
    SIGILL. Threads and forked children inherit it, programs that are executed do not.
    """
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        return f"{platform.system()} on {platform.machine()} has no tiles"
    libc = ctypes.CDLL(None, use_errno=True)
    asked = map(ctypes.c_long, (_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA))
    if libc.syscall(*asked) == 0:
        return None
    number = ctypes.get_errno()
    more = f" ({_SAID[number]})" if number in _SAID else ""
    return f"arch_prctl says {os.strerror(number)}{more}"
