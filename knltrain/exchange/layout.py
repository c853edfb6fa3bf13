"""Where everything sits inside a shared segment; numbers only, no memory.

    page-aligned
    0      header          magic, layout version, workers, size, bytes in all
    128    abort word
    256    state of rank 0, 256 bytes: sequence number, process that holds it | scratch sums
    512    state of rank 1 ...
    pages  local of rank 0, padded to whole pages
    pages  local of rank 1 ...
    pages  center

Words that one worker writes and others poll have 128 bytes to themselves, because processors fetch
cache lines in pairs.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass

WORD_BYTES = 8
ABORT_WORD = 16
FIRST_STATE_WORD = 32
STATE_WORDS = 32
SEQUENCE, HOLDER, SCRATCH = 0, 1, 16
"""Words inside a worker's state; two sets of eight sums begin at SCRATCH."""

FLOAT_BYTES = 4
_CACHE_LINE_FLOATS = 16
_PAGES_PER_STRIPE = 8
"""Stripes shorter than this are cut at cache lines: whole pages would make them too uneven."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The places of the parts of a segment for ``workers`` vectors of ``size`` float32 elements.

    Raises ValueError unless both are at least 1.
    """

    size: int
    workers: int

    def __post_init__(self) -> None:
        if self.size < 1 or self.workers < 1:
            raise ValueError(f"{self}: expected at least 1 worker and 1 element")

    @property
    def header_bytes(self) -> int:
        """Bytes of header and states, whole pages."""
        return _whole_pages((FIRST_STATE_WORD + self.workers * STATE_WORDS) * WORD_BYTES)

    @property
    def row_bytes(self) -> int:
        """Bytes from one local to the next, whole pages."""
        return _whole_pages(self.size * FLOAT_BYTES)

    @property
    def total_bytes(self) -> int:
        """Bytes of the whole segment: header, P locals, center."""
        return self.header_bytes + (self.workers + 1) * self.row_bytes

    def state_word(self, rank: int) -> int:
        """First word of a worker's state, counted from the start of the segment."""
        return FIRST_STATE_WORD + rank * STATE_WORDS

    def local_offset(self, rank: int) -> int:
        """First byte of a worker's local; ``rank`` = P gives the center."""
        return self.header_bytes + rank * self.row_bytes

    def stripe(self, rank: int) -> slice:
        """Elements that ``rank`` works on in an exchange; the P stripes cover all, in rank order.

        Stripes begin at whole pages, so that each page of the center has one owner, or at cache
        lines where the vector is too short for that. Those at the end may be empty.
        """
        unit = mmap.PAGESIZE // FLOAT_BYTES
        if self.size < _PAGES_PER_STRIPE * self.workers * unit:
            unit = _CACHE_LINE_FLOATS
        units = -(-self.size // unit)
        begin, end = (min(units * r // self.workers * unit, self.size) for r in (rank, rank + 1))
        return slice(begin, end)


def _whole_pages(bytes_: int) -> int:
    return -(-bytes_ // mmap.PAGESIZE) * mmap.PAGESIZE
