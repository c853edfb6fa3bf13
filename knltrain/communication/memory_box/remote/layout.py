"""The layout of the memory of each server; numbers only, no memory.

    words     lock of the directory | slots, one for each buffer
    pages     this server's shard of every buffer, at the same offset in all servers

A buffer's description and events are in its slot at the first server. Every server has a lock in
that slot for its shard.
"""

from __future__ import annotations

from itertools import pairwise

WORD_BYTES = 8
PAGE_BYTES = 4096
SLOTS = 256
"""Buffers that a box can hold."""
SLOT_WORDS = 16
EVENTS = 8

LOCK, OFFSET, SIZE, KIND, HOLDER = range(5)
"""Words at the begin of a slot; HOLDER is the rank that holds the shard exclusively, for errors."""
EVENTS_BEGIN = SLOT_WORDS - EVENTS

DIRECTORY_LOCK_WORD = 0
_FIRST_SLOT_WORD = SLOT_WORDS
WORDS = _FIRST_SLOT_WORD + SLOTS * SLOT_WORDS
DATA_BEGIN = -(-WORDS * WORD_BYTES // PAGE_BYTES) * PAGE_BYTES

USER, GATE, GENERATION = 1, 1 << 16, 1 << 32
"""Units of the three counters in a lock's word: processes that add to the shard, processes that
want it exclusively, and the generation of the buffer (part of its key), 0 for none."""
GENERATION_BITS = 30

_SHARD_ALIGNMENT = 64


def slot_word(slot: int) -> int:
    """First word of a slot."""
    return _FIRST_SLOT_WORD + slot * SLOT_WORDS


def users(lock: int) -> int:
    """Return how many processes add to the shard."""
    return lock % GATE


def gates(lock: int) -> int:
    """Return how many want it exclusively; one of them has it, or waits for users to finish."""
    return lock % GENERATION // GATE


def generation(lock: int) -> int:
    """Return the generation of the buffer that the shard belongs to; 0 for none."""
    return lock // GENERATION


def whole_pages(bytes_: int) -> int:
    """Return ``bytes_`` rounded up to pages."""
    return -(-bytes_ // PAGE_BYTES) * PAGE_BYTES


def shards(size: int, item_bytes: int, servers: int) -> list[slice]:
    """Elements that lie at each server: equal parts of whole cache lines; the last may be empty."""
    unit = _SHARD_ALIGNMENT // item_bytes
    units = -(-size // unit)
    each = -(-units // servers) * unit
    ends = [min(each * number, size) for number in range(servers + 1)]
    return [slice(begin, end) for begin, end in pairwise(ends)]
