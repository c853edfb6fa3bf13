"""The layout of a group's segment; numbers only, no memory.

    page      header: magic, layout version, ranks | abort word
              state of rank 0, 256 bytes: steps done | process, whether it left, calls announced
              state of rank 1 ...
    pages     slot of rank 0: two halves, which the steps use in turn
    pages     slot of rank 1 ...
    pages     a channel for messages from each rank to each: bytes written | bytes read | ring

Words that one rank writes and others poll have 128 bytes to themselves, because processors prefetch
cache lines in pairs. A channel takes no memory before its first message.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass

WORD_BYTES = 8
ABORT_WORD = 16
FIRST_STATE_WORD = 32
STATE_WORDS = 32
SEQUENCE, HOLDER, LEFT, CALLS = 0, 16, 17, 18
"""Words inside a rank's state; two announced calls begin at CALLS."""

HALF_BYTES = 512 * 1024
"""The most that a rank writes in one step: two ranks' halves fit a second-level cache of 1 MiB."""
SLOT_BYTES = 2 * HALF_BYTES

WRITTEN, READ, RING = 0, 16, 32
"""Words at the begin of a channel: two counters of bytes; the ring buffer follows."""
RING_BYTES = 128 * 1024


def whole_pages(bytes_: int) -> int:
    """Return ``bytes_`` rounded up to pages."""
    return -(-bytes_ // mmap.PAGESIZE) * mmap.PAGESIZE


CHANNEL_BYTES = whole_pages(RING * WORD_BYTES + RING_BYTES)


@dataclass(frozen=True, slots=True)
class GroupLayout:
    """The places of the parts of a segment for ``ranks`` processes, in bytes from its start."""

    ranks: int

    @property
    def slots(self) -> int:
        """First byte of the slot of rank 0."""
        return whole_pages((FIRST_STATE_WORD + self.ranks * STATE_WORDS) * WORD_BYTES)

    @property
    def channels(self) -> int:
        """First byte of the first channel; what lies before it has memory from the start."""
        return self.slots + self.ranks * SLOT_BYTES

    @property
    def total_bytes(self) -> int:
        """Bytes of the whole segment, most of which never take memory."""
        return self.channels + self.ranks**2 * CHANNEL_BYTES

    def slot(self, rank: int) -> int:
        """First byte of a rank's slot."""
        return self.slots + rank * SLOT_BYTES

    def channel(self, source: int, destination: int) -> int:
        """First byte of the channel from one rank to another."""
        return self.channels + (source * self.ranks + destination) * CHANNEL_BYTES


def state_word(rank: int) -> int:
    """First word of a rank's state, counted from the start of the segment."""
    return FIRST_STATE_WORD + rank * STATE_WORDS
