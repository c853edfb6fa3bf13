"""The layout of a segment; numbers only, no memory.

    page-aligned
    0      header          magic, layout version, workers, size, bytes in all, bytes of a page
    128    abort word
    256    state of rank 0, 256 bytes: sequence number, process that holds it, steps done |
           scratch sums
    512    state of rank 1 ...
    ...    locks of the center's pieces, 128 bytes each, then the turn
    pages  local of rank 0, padded to whole pages
    pages  local of rank 1 ...
    pages  spare of rank 0 ..., if there are spares
    pages  center, then the vectors that a rule keeps beside it

Words that one worker writes and others poll have 128 bytes to themselves, because processors
prefetch cache lines in pairs. Long vectors begin at huge pages, so that the kernel can use these.
The gaps between vectors are never touched and take no memory.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass

from knltrain.communication.shared_memory.anonymous_file import FLOAT_BYTES, HUGE_PAGE_BYTES

WORD_BYTES = 8
ABORT_WORD = 16
FIRST_STATE_WORD = 32
STATE_WORDS = 32
SEQUENCE, HOLDER, STEPS_DONE, SCRATCH = 0, 1, 2, 16
"""Words inside a worker's state; two sets of SUMS sums begin at SCRATCH."""
SUMS = 8
LOCK_WORDS = 16
"""Words from one lock to the next."""

PIECE_FLOATS = 2**16
"""The size of the center's pieces: 256 KiB fit a second-level cache, and a lock costs some percent
of the time to move them."""
_MOST_PIECES = 1024

_CACHE_LINE_FLOATS = 16
_PAGES_PER_STRIPE = 8
"""Stripes of fewer pages than this are cut at smaller pages or at cache lines, to balance them."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The offsets of the parts of a segment, with vectors of ``size`` float32 elements.

    The center has ``center_vectors``: itself, and those that a rule keeps beside it. Each of the
    ``workers`` has a local, and with ``spares`` also a spare. Every part begins at a multiple of
    ``page_bytes``. Raises ValueError unless ``size``, ``workers`` and ``center_vectors`` are at
    least 1 and ``page_bytes`` is the size of the kernel's pages or of huge pages.
    """

    size: int
    workers: int
    page_bytes: int = mmap.PAGESIZE
    center_vectors: int = 1
    spares: bool = False

    def __post_init__(self) -> None:
        if min(self.size, self.workers, self.center_vectors) < 1:
            raise ValueError(f"{self}: expected at least 1 worker, 1 element and 1 center")
        if self.page_bytes not in (mmap.PAGESIZE, HUGE_PAGE_BYTES):
            raise ValueError(f"{self}: expected pages of {mmap.PAGESIZE} or {HUGE_PAGE_BYTES}")

    @property
    def header_bytes(self) -> int:
        """Bytes of header and states, whole pages."""
        return self._whole_pages(self.used_header_bytes)

    @property
    def used_header_bytes(self) -> int:
        """Bytes of header and states that are in use."""
        return (self.lock_word(self.pieces) + LOCK_WORDS) * WORD_BYTES

    @property
    def row_bytes(self) -> int:
        """Bytes from one local to the next, whole pages."""
        return self._whole_pages(self.size * FLOAT_BYTES)

    @property
    def total_bytes(self) -> int:
        """Bytes of the whole segment: header, locals and spares, the center's vectors."""
        return self.row_offset(self.center_row + self.center_vectors)

    @property
    def center_row(self) -> int:
        """The row of the center, after the rows of all locals and spares."""
        return self.workers * (1 + self.spares)

    def rows_of(self, rank: int) -> tuple[int, ...]:
        """The rows of a worker's local and, if there are spares, of its spare."""
        return tuple(range(rank, self.center_row, self.workers))

    @property
    def pieces(self) -> int:
        """The number of pieces of the center for visits; each has a lock."""
        return min(max(1, self.size // PIECE_FLOATS), _MOST_PIECES)

    def piece(self, number: int) -> slice:
        """Elements of a piece; they cover all, in order, and begin at cache lines."""
        lines = -(-self.size // _CACHE_LINE_FLOATS)
        begin, end = (
            min(lines * n // self.pieces * _CACHE_LINE_FLOATS, self.size)
            for n in (number, number + 1)
        )
        return slice(begin, end)

    def lock_word(self, piece: int) -> int:
        """Word of a piece's lock, counted from the start; ``piece`` = ``pieces`` gives the turn."""
        return self.state_word(self.workers) + piece * LOCK_WORDS

    def state_word(self, rank: int) -> int:
        """First word of a worker's state, counted from the start of the segment."""
        return FIRST_STATE_WORD + rank * STATE_WORDS

    def row_offset(self, row: int) -> int:
        """First byte of a row: locals, spares, then the center's vectors."""
        return self.header_bytes + row * self.row_bytes

    def stripe(self, rank: int, part: slice = slice(None)) -> slice:
        """Elements that ``rank`` works on in an exchange; the P stripes cover all, in rank order.

        Stripes begin at pages, so that each page of the center has one owner. If the vector is too
        short for that, they begin at smaller pages or cache lines. The last ones may be empty.
        Stripes of a ``part`` of the vectors begin at cache lines.
        """
        first, last, _ = part.indices(self.size)
        if (first, last) != (0, self.size):
            lines = range(first // _CACHE_LINE_FLOATS, -(-last // _CACHE_LINE_FLOATS))
            return _share(rank, self.workers, lines, _CACHE_LINE_FLOATS, first, last)
        unit = next(
            (page // FLOAT_BYTES for page in self._stripe_pages() if self._has_stripes_of(page)),
            _CACHE_LINE_FLOATS,
        )
        return _share(rank, self.workers, range(-(-self.size // unit)), unit, 0, self.size)

    def _stripe_pages(self) -> tuple[int, ...]:
        return (self.page_bytes, mmap.PAGESIZE)

    def _has_stripes_of(self, page: int) -> bool:
        return self.size * FLOAT_BYTES >= _PAGES_PER_STRIPE * self.workers * page

    def _whole_pages(self, bytes_: int) -> int:
        return -(-bytes_ // self.page_bytes) * self.page_bytes


def _share(rank: int, workers: int, units: range, unit: int, first: int, last: int) -> slice:
    """Return the elements from ``first`` to ``last`` in ``rank``'s share of ``units``."""
    ends = (units.start + len(units) * r // workers for r in (rank, rank + 1))
    begin, end = (min(max(number * unit, first), last) for number in ends)
    return slice(begin, end)
