"""Pages of shared memory, and what goes into them."""

from __future__ import annotations

import mmap

FLOAT_BYTES = 4
HUGE_PAGE_BYTES = 2 * 2**20

_HUGE_FROM_BYTES = 2**20
"""Vectors from this on begin at huge pages."""


def page_bytes_for(size: int) -> int:
    """The pages that vectors of ``size`` float32 elements are to begin at."""
    return HUGE_PAGE_BYTES if size * FLOAT_BYTES >= _HUGE_FROM_BYTES else mmap.PAGESIZE
