"""The layout of a box; numbers only, no memory.

    page      header: magic, layout version, bytes in all | lock of the directory
    slots     one for each buffer: what it is | its events | its locks
    pages     the buffers, wherever there is room

Each event and lock of a slot has 128 bytes to itself, because processors prefetch cache lines in
pairs.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from itertools import pairwise

WORD_BYTES = 8
APART_WORDS = 16

MAGIC = int.from_bytes(b"knl box", "little")
VERSION = 1
DIRECTORY_LOCK_WORD = APART_WORDS

SLOTS = 1024
"""The most buffers of a box: a shared one, and one for each worker of the largest Xeon Phi."""
EVENTS = 8
LOCKS = 16
"""Stripes of a buffer that different processes can work on at once."""

KEY, OFFSET, BYTES, KIND = range(4)
"""Words at the begin of a slot; a key of 0 means that it is free."""
EVENTS_BEGIN = APART_WORDS
LOCKS_BEGIN = EVENTS_BEGIN + EVENTS * APART_WORDS
SLOT_WORDS = LOCKS_BEGIN + LOCKS * APART_WORDS

_FIRST_SLOT_WORD = mmap.PAGESIZE // WORD_BYTES
WORDS = _FIRST_SLOT_WORD + SLOTS * SLOT_WORDS
"""Words of header and slots."""

DATA_BEGIN = -(-WORDS * WORD_BYTES // mmap.PAGESIZE) * mmap.PAGESIZE
_STRIPE_ALIGNMENT = 64


def slot_word(slot: int) -> int:
    """First word of a slot, counted from the start of the box."""
    return _FIRST_SLOT_WORD + slot * SLOT_WORDS


def whole_pages(bytes_: int) -> int:
    """Return ``bytes_`` rounded up to pages."""
    return -(-bytes_ // mmap.PAGESIZE) * mmap.PAGESIZE


def stripes(size: int, item_bytes: int) -> list[slice]:
    """Elements under each lock of a buffer of ``size``; those at the end may be empty."""
    unit = _STRIPE_ALIGNMENT // item_bytes
    units = -(-size // unit)
    ends = [min(units * n // LOCKS * unit, size) for n in range(LOCKS + 1)]
    return [slice(begin, end) for begin, end in pairwise(ends)]


@dataclass(frozen=True, slots=True, order=True)
class Extent:
    """A piece of a box's memory, in bytes from its start, whole pages."""

    offset: int
    bytes: int


def first_gap(taken: list[Extent], bytes_: int, end: int, begin: int = DATA_BEGIN) -> int | None:
    """Return the first offset with room for ``bytes_`` between what is taken, if there is one."""
    for extent in sorted(taken):
        if extent.offset - begin >= bytes_:
            return begin
        begin = extent.offset + extent.bytes
    return begin if end - begin >= bytes_ else None
