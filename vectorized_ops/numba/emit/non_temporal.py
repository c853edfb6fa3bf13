# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""Stores past the caches: when they pay, and how a thread ends them.

A store to memory that is in no cache reads it first. A store past the caches does not, which for
an operation of one read and one write means two streams instead of three; but what is written
this way has to be fetched from memory by the next reader. So they pay for what would not fit in
the last-level cache anyway. What is written stands for no more than a third of what passes through
that cache until it is read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numba import types

from vectorized_ops.layout import AnyArray
from vectorized_ops.numba.emit.lanes import tile

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNKNOWN_CACHE_BYTES = 32 << 20

_MOST_BYTES_PER_CPU = 16 << 20
"""What more a cache is told to have for each cpu that shares it is taken to be others'.

A virtual machine of a few cpus is told the whole cache of a processor whose other cpus, with
programs of their own, it does not see. The few processors that do have more, large caches with few
cores, store past it sooner than they need to.
"""


def last_level_cache_bytes(caches: Path = _CACHES) -> int:
    """Return what the processor's largest cache holds for its cpus; 32 MiB if Linux is silent."""
    return max(map(_usable_bytes, caches.glob("index*")), default=0) or _UNKNOWN_CACHE_BYTES


def _usable_bytes(cache: Path) -> int:
    """Return the size of a cache, or what the cpus that share it could have at most."""
    size, sharing = (_text(cache / name) for name in ("size", "shared_cpu_map"))
    if not size.endswith("K"):
        return 0
    reported = int(size[:-1]) << 10
    cpus = int(sharing.replace(",", "") or "0", 16).bit_count()
    return min(reported, cpus * _MOST_BYTES_PER_CPU) if cpus else reported


def _text(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""


STREAMED_BYTES = last_level_cache_bytes() // 3
"""So many are kept in the caches; what is written of more than that goes past them."""


def streamed(out: AnyArray, written: int, *read: AnyArray) -> bool:
    """Tell whether `written` bytes of flat `out` should be stored past the caches.

    Not if `out` is one of the arrays `read`: its lines are in the cache by then.
    """
    if written <= STREAMED_BYTES:  # first, as asking arrays for their addresses takes a while
        return False
    start = out.__array_interface__["data"][0]
    before = (array.__array_interface__["data"][0] for array in read)
    return start % 64 == 0 and start not in before


@tile
def finish_stores(typingctx: Any) -> Any:
    """Wait until stores past the caches can be seen by other threads."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate
