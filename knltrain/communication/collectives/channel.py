"""A channel for messages from one rank to another: a ring buffer that never blocks."""

from __future__ import annotations

from typing import final

from knltrain.communication.collectives.kernel_barrier import copy_bytes
from knltrain.communication.collectives.layout import READ, RING, RING_BYTES, WORD_BYTES, WRITTEN
from knltrain.communication.collectives.segment import GroupSegment
from knltrain.communication.shared_memory.atomics import Words, publish, read
from vectorized_ops.numba.compiling.compiler import kernel


@kernel
def push(words: Words, channel: int, ring: int, source: int, bytes_: int) -> int:
    """Write as many bytes at ``source`` as there is room for; return how many."""
    written = read(words, channel + WRITTEN)
    room = RING_BYTES - (written - read(words, channel + READ))
    size = min(room, bytes_)
    begin = written % RING_BYTES
    straight = min(size, RING_BYTES - begin)
    if size > 0:
        copy_bytes(ring + begin, source, straight)
        copy_bytes(ring, source + straight, size - straight)
        publish(words, channel + WRITTEN, written + size)
    return size


@kernel
def pull(words: Words, channel: int, ring: int, target: int, bytes_: int) -> int:
    """Read as many of ``bytes_`` bytes to ``target`` as are there; return how many."""
    taken = read(words, channel + READ)
    size = min(read(words, channel + WRITTEN) - taken, bytes_)
    begin = taken % RING_BYTES
    straight = min(size, RING_BYTES - begin)
    if size > 0:
        copy_bytes(target, ring + begin, straight)
        copy_bytes(target + straight, ring, size - straight)
        publish(words, channel + READ, taken + size)
    return size


@final
class Channel:
    """The ring buffer from rank ``source`` to rank ``destination``; one thread at each end."""

    def __init__(self, segment: GroupSegment, source: int, destination: int) -> None:
        begin = segment.layout.channel(source, destination)
        self._words = segment.words
        self._word = begin // WORD_BYTES
        self._ring = segment.address + begin + RING * WORD_BYTES

    def push(self, source: int, bytes_: int) -> int:
        """Write as many bytes at the address ``source`` as there is room for; return how many."""
        return push(self._words, self._word, self._ring, source, bytes_)

    def pull(self, target: int, bytes_: int) -> int:
        """Read as many bytes to the address ``target`` as are there; return how many."""
        return pull(self._words, self._word, self._ring, target, bytes_)
