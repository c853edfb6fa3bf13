"""Whether this process may use AMX's tiles: Linux gives their registers on request only.

Linux, Documentation/arch/x86/xstate.rst, "Using XSTATE features in user space applications". Then
the processor tells by CPUID, leaves 1DH and 1EH (Intel, "64 and IA-32 Architectures Software
Developer's Manual", volume 2), whether its tiles are those that kernels are made for: a hypervisor
may show others.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import sys
from functools import cache
from typing import Final, NamedTuple

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


class Tiles(NamedTuple):
    """Number and sizes of tiles, and the largest product of two: rows of B, bytes of a row."""

    tiles: int
    rows: int
    row_bytes: int
    product_rows: int
    product_bytes: int


NEEDED: Final = Tiles(8, 16, 64, 16, 64)
"""Those of palette 1, which kernels configure (`emit.amx`)."""


@cache
def amx_refusal() -> str | None:
    """Ask for the tiles' registers; return the reason why they are refused, None if they are not.

    Tiles that are too few or too small for our kernels are a reason, too.

    Asked once in a process, before its first tile: without permission a tile ends the process by
    SIGILL. Threads and forked children inherit it, programs that are executed do not.
    """
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        return f"{platform.system()} on {platform.machine()} has no tiles"
    libc = ctypes.CDLL(None, use_errno=True)
    asked = map(ctypes.c_long, (_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA))
    if libc.syscall(*asked) == 0:
        found = tiles_here()
        if all(ours >= needed for ours, needed in zip(found, NEEDED, strict=True)):
            return None
        return f"CPUID tells of {_told(found)}: expected {_told(NEEDED)}"
    number = ctypes.get_errno()
    more = f" ({_SAID[number]})" if number in _SAID else ""
    return f"arch_prctl says {os.strerror(number)}{more}"


def tiles_here() -> Tiles:
    """What the processor tells of palette 1 and its products; zeros where it has none."""
    from vectorized_ops.numba.cpuid import cpuid

    if cpuid(0x1D).eax < 1:  # the number of palettes
        return Tiles(0, 0, 0, 0, 0)
    palette, product = cpuid(0x1D, 1), cpuid(0x1E)
    return Tiles(
        palette.ebx >> 16,
        palette.ecx & 0xFFFF,
        palette.ebx & 0xFFFF,
        product.ebx & 0xFF,
        product.ebx >> 8 & 0xFFFF,
    )


def _told(tiles: Tiles) -> str:
    return (
        f"{tiles.tiles} tiles of {tiles.rows} rows of {tiles.row_bytes} bytes, and products of "
        f"{tiles.product_rows} rows of {tiles.product_bytes}"
    )
