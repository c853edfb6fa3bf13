"""Where everything sits inside a shared segment; numbers only, no memory.

    page-aligned
    0      header          magic, layout version, workers, size, bytes in all, bytes of a page
    128    abort word
    256    state of rank 0, 256 bytes: sequence number, process that holds it | scratch sums
    512    state of rank 1 ...
    pages  local of rank 0, padded to whole pages
    pages  local of rank 1 ...
    pages  center

Words that one worker writes and others poll have 128 bytes to themselves, because processors fetch
cache lines in pairs. Long vectors begin at huge pages, so that the kernel can use these; what is
left between them is never touched and takes no memory.
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
"""Stripes of fewer pages than this are cut at smaller ones, or at cache lines, to be even."""

HUGE_PAGE_BYTES = 2 * 2**20
_HUGE_FROM_BYTES = 2**20
"""Vectors from this on begin at huge pages."""


def page_bytes_for(size: int) -> int:
    """The pages that vectors of ``size`` float32 elements are to begin at."""
    return HUGE_PAGE_BYTES if size * FLOAT_BYTES >= _HUGE_FROM_BYTES else mmap.PAGESIZE


@dataclass(frozen=True, slots=True)
class Layout:
    """The places of the parts of a segment for ``workers`` vectors of ``size`` float32 elements.

    Every part begins at a multiple of ``page_bytes``. Raises ValueError unless ``size`` and
    ``workers`` are at least 1 and ``page_bytes`` is the kernel's page or a huge one.
    """

    size: int
    workers: int
    page_bytes: int = mmap.PAGESIZE

    def __post_init__(self) -> None:
        if self.size < 1 or self.workers < 1:
            raise ValueError(f"{self}: expected at least 1 worker and 1 element")
        if self.page_bytes not in (mmap.PAGESIZE, HUGE_PAGE_BYTES):
            raise ValueError(f"{self}: expected pages of {mmap.PAGESIZE} or {HUGE_PAGE_BYTES}")

    @property
    def header_bytes(self) -> int:
        """Bytes of header and states, whole pages."""
        return self._whole_pages(self.used_header_bytes)

    @property
    def used_header_bytes(self) -> int:
        """Bytes of header and states that hold something."""
        return (FIRST_STATE_WORD + self.workers * STATE_WORDS) * WORD_BYTES

    @property
    def row_bytes(self) -> int:
        """Bytes from one local to the next, whole pages."""
        return self._whole_pages(self.size * FLOAT_BYTES)

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

        Stripes begin at whole pages, so that each page of the center has one owner, or at smaller
        ones or cache lines where the vector is too short for that. Those at the end may be empty.
        """
        unit = next(
            (page // FLOAT_BYTES for page in self._stripe_pages() if self._has_stripes_of(page)),
            _CACHE_LINE_FLOATS,
        )
        units = -(-self.size // unit)
        begin, end = (min(units * r // self.workers * unit, self.size) for r in (rank, rank + 1))
        return slice(begin, end)

    def _stripe_pages(self) -> tuple[int, ...]:
        return (self.page_bytes, mmap.PAGESIZE)

    def _has_stripes_of(self, page: int) -> bool:
        return self.size * FLOAT_BYTES >= _PAGES_PER_STRIPE * self.workers * page

    def _whole_pages(self, bytes_: int) -> int:
        return -(-bytes_ // self.page_bytes) * self.page_bytes
