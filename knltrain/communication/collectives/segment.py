"""The segment of a group: the memory that its ranks share, and which of them are there."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import final

import numpy as np

from knltrain.communication.collectives.layout import (
    ABORT_WORD,
    CHANNEL_BYTES,
    HOLDER,
    LEFT,
    SLOT_BYTES,
    WORD_BYTES,
    GroupLayout,
    state_word,
)
from knltrain.communication.shared_memory import anonymous_file, process_identity
from knltrain.communication.shared_memory.atomics import Words, publish, read
from knltrain.errors import SegmentError

_MAGIC = int.from_bytes(b"knl grp", "little")
_LAYOUT_VERSION = 1
_HEADER_WORDS = 3


@final
class GroupSegment:
    """A group's shared memory, mapped into this process; the last process frees it.

    ``words`` is all of it as int64, ``address`` is where it begins in this process.
    """

    def __init__(self, fd: int, ranks: int) -> None:
        """Map an open segment; `create` and `attach` check that it is one."""
        self.layout = GroupLayout(ranks)
        self.ranks = ranks
        self.fd = fd
        self._pid = os.getpid()
        memory = mmap.mmap(fd, self.layout.total_bytes)
        self.words: Words = np.frombuffer(memory, np.int64)
        self.address = int(self.words.ctypes.data)

    @classmethod
    def create(cls, ranks: int) -> GroupSegment:
        """Make the memory of a new group; SegmentError if the machine has too little free."""
        layout = GroupLayout(ranks)
        fd = anonymous_file.create("memfd", Path("/"), layout.channels)
        try:
            os.ftruncate(fd, layout.total_bytes)
            anonymous_file.reserve(fd, 0, layout.slots)
            segment = cls(fd, ranks)
        except (SegmentError, OSError):
            os.close(fd)
            raise
        segment.words[:_HEADER_WORDS] = _MAGIC, _LAYOUT_VERSION, ranks
        return segment

    @classmethod
    def attach(cls, fd: int, ranks: int) -> GroupSegment:
        """Map the segment behind a descriptor; SegmentError if it is not one for ``ranks``."""
        try:
            found, bytes_ = os.pread(fd, _HEADER_WORDS * WORD_BYTES, 0), os.fstat(fd).st_size
        except OSError as error:
            raise SegmentError(f"file descriptor {fd} is no segment: {error.strerror}") from None
        whole = len(found) == _HEADER_WORDS * WORD_BYTES
        header = np.frombuffer(found, np.int64).tolist() if whole else []
        expected_bytes = GroupLayout(ranks).total_bytes
        if header != [_MAGIC, _LAYOUT_VERSION, ranks] or bytes_ != expected_bytes:
            raise SegmentError(
                f"file descriptor {fd} is no segment for {ranks} ranks of this version of "
                "knltrain: start all ranks of a group from one installation"
            )
        return cls(fd, ranks)

    def claim(self, rank: int) -> None:
        """Become ``rank``: allocate the pages of its slot, and publish this process's identity.

        The pages come from the NUMA node that this thread runs on.
        """
        offset = self.layout.slot(rank)
        anonymous_file.reserve(self.fd, offset, SLOT_BYTES)
        self.words[offset // WORD_BYTES : (offset + SLOT_BYTES) // WORD_BYTES] = 0
        publish(self.words, state_word(rank) + HOLDER, process_identity.own_identity())

    def claim_channel(self, source: int, destination: int) -> None:
        """Allocate the pages of a channel, on the NUMA node that this thread runs on."""
        anonymous_file.reserve(self.fd, self.layout.channel(source, destination), CHANNEL_BYTES)

    def holder(self, rank: int) -> int:
        """Return the identity of the process that has a rank, see `process_identity`; 0 if none."""
        return read(self.words, state_word(rank) + HOLDER)

    def has_left(self, rank: int) -> bool:
        """Tell whether a rank has left the group, though its process may go on."""
        return read(self.words, state_word(rank) + LEFT) != 0

    def leave(self, rank: int) -> None:
        """Publish that this rank has left, and close the file descriptor."""
        if self.fd >= 0 and os.getpid() == self._pid:  # a forked process is no rank
            publish(self.words, state_word(rank) + LEFT, 1)
            os.close(self.fd)
        self.fd = -1

    @property
    def abort_code(self) -> int:
        """Return the code of why the group is broken, 0 if it is not."""
        return read(self.words, ABORT_WORD)

    def abort(self, code: int) -> None:
        """Tell all ranks that the group is broken; the first code is kept."""
        if self.abort_code == 0:
            publish(self.words, ABORT_WORD, code)
