"""The memory box of one node: its memory, and the directory of its buffers."""

from __future__ import annotations

import mmap
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, final

import numpy as np
import numpy.typing as npt

from knltrain.communication.memory_box.interface import Box
from knltrain.communication.memory_box.local.buffer import Buffer
from knltrain.communication.memory_box.local.layout import (
    APART_WORDS,
    BYTES,
    DATA_BEGIN,
    DIRECTORY_LOCK_WORD,
    EVENTS,
    EVENTS_BEGIN,
    KEY,
    KIND,
    MAGIC,
    OFFSET,
    SLOT_WORDS,
    SLOTS,
    VERSION,
    WORDS,
    Extent,
    first_gap,
    slot_word,
    whole_pages,
)
from knltrain.communication.shared_memory import anonymous_file, process_identity
from knltrain.communication.shared_memory.atomics import (
    PATIENT_LOOKS,
    Words,
    give_back,
    publish,
    read,
    take,
)
from knltrain.communication.shared_memory.descriptor_passing import DescriptorServer, fd_behind
from knltrain.communication.shared_memory.polling import nap_until
from knltrain.errors import ExchangeTimeout, PeerLost, SegmentError

_KINDS: tuple[np.dtype[np.float32] | np.dtype[np.int64], ...] = (
    np.dtype(np.float32),
    np.dtype(np.int64),
)
_SECRET_BITS = 52


@final
class SoftMemoryBox(Box[Buffer]):
    """Shared memory of ``bytes`` in all, for buffers that are found by keys.

    A buffer's pages are allocated when it is made, on the NUMA node of the process that makes it.
    ``timeout_seconds`` is how long another process may keep this one waiting. The last process that
    has the box frees the memory. A forked process must open it anew.
    """

    def __init__(self, fd: int, bytes_: int, timeout_seconds: float) -> None:
        """Map an open box; `create`, `attach` and `connect` check that it is one."""
        self.fd = fd
        self.bytes = bytes_
        self._timeout_seconds = timeout_seconds
        self._identity = process_identity.own_identity()
        self._memory: mmap.mmap | None = mmap.mmap(fd, bytes_)
        self._words: Words = np.frombuffer(self._memory, np.int64, WORDS)
        self._doorkeeper: DescriptorServer | None = None

    @classmethod
    def create(
        cls,
        bytes_: int,
        kind: Literal["shm", "memfd"] = "shm",
        directory: Path = Path("/dev/shm"),
        timeout_seconds: float = 60.0,
    ) -> SoftMemoryBox:
        """Make a box with room for ``bytes_`` of buffers.

        ``kind`` and ``directory`` are those of `anonymous_file.create`. Raises SegmentError if
        there is no room, before anything is written.
        """
        total = DATA_BEGIN + whole_pages(bytes_)
        fd = anonymous_file.create(kind, directory, total)
        try:
            anonymous_file.reserve(fd, 0, DATA_BEGIN)
            box = cls(fd, total, timeout_seconds)
        except (SegmentError, OSError):
            os.close(fd)
            raise
        box._words[:3] = MAGIC, VERSION, total
        return box

    @classmethod
    def attach(cls, fd: int, timeout_seconds: float = 60.0) -> SoftMemoryBox:
        """Map the box behind an inherited file descriptor; SegmentError if it is none."""
        try:
            found, size = os.pread(fd, 24, 0), os.fstat(fd).st_size
        except OSError as error:
            raise SegmentError(f"file descriptor {fd} is no box: {error.strerror}") from None
        header = np.frombuffer(found, np.int64).tolist() if len(found) == 24 else [0, 0, 0]
        if header != [MAGIC, VERSION, size]:
            raise SegmentError(
                f"file descriptor {fd} is no box of this version of knltrain: expected one that "
                "SoftMemoryBox.create has made"
            )
        return cls(fd, header[2], timeout_seconds)

    @classmethod
    def connect(cls, address: str, timeout_seconds: float = 60.0) -> SoftMemoryBox:
        """Connect to the box that another process of this user has made, by its ``address``."""
        fd = fd_behind(address)
        try:
            return cls.attach(fd, timeout_seconds)
        except SegmentError:
            os.close(fd)
            raise

    @property
    def address(self) -> str:
        """The address by which other processes of this computer connect while this one runs."""
        self._check_open()
        if self._doorkeeper is None:
            self._doorkeeper = DescriptorServer(self.fd)
        return self._doorkeeper.address

    def create_buffer(
        self,
        size: int,
        dtype: npt.DTypeLike = np.float32,
        private: bool = False,  # noqa: ARG002
    ) -> Buffer:
        """Make a buffer of ``size`` zeros of float32 or int64; its key lets others open it.

        A ``private`` one lies in the box like all others: there is no nearer memory. Raises
        SegmentError if the box has no room, or no memory is left.
        """
        kind = np.dtype(dtype)
        if kind not in _KINDS:
            raise SegmentError(f"dtype {kind}: expected float32 or int64")
        self._check_open()
        if size < 1:
            raise SegmentError(f"size = {size}: expected at least 1 element")
        bytes_ = whole_pages(size * kind.itemsize)
        with self._directory():
            slot, offset = self._free_slot(), self._gap(bytes_)
            anonymous_file.reserve(self.fd, offset, bytes_)
            words = self._slot(slot)
            # Not the locks: a process with an old handle may be about to release one.
            for event in range(EVENTS):
                publish(words, EVENTS_BEGIN + event * APART_WORDS, 0)
            publish(words, OFFSET, offset)
            publish(words, BYTES, size * kind.itemsize)
            publish(words, KIND, _KINDS.index(kind))
            key = 0
            while key < SLOTS:  # a key of 0 means free
                key = secrets.randbits(_SECRET_BITS) * SLOTS + slot
            publish(words, KEY, key)
        return self.open(key)

    def open(self, key: int) -> Buffer:
        """Open the buffer of that key; SegmentError if there is none."""
        self._check_open()
        words = self._slot(key % SLOTS)
        known = key > 0 and read(words, KEY) == key
        number, bytes_, offset = (read(words, field) for field in (KIND, BYTES, OFFSET))
        # Read the key again: another process may have made a buffer here since.
        if not known or read(words, KEY) != key:
            raise SegmentError(
                f"key {key} opens no buffer of this box: expected one that create_buffer has given "
                "out, and that was not freed"
            )
        kind = _KINDS[number]
        values = np.frombuffer(self._check_open(), kind, bytes_ // kind.itemsize, offset)
        return Buffer(key, values, words, self._timeout_seconds, self._free)

    def close(self) -> None:
        """Release the box; buffers that are still used keep their memory."""
        if self._doorkeeper is not None:
            self._doorkeeper.close()
            self._doorkeeper = None
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1
        self._words = np.zeros(0, np.int64)
        self._memory = None

    def __enter__(self) -> SoftMemoryBox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> mmap.mmap:
        if self._memory is None:
            raise SegmentError("the box is closed: expected an open one")
        return self._memory

    def _slot(self, slot: int) -> Words:
        begin = slot_word(slot)
        return self._words[begin : begin + SLOT_WORDS]

    def _free_slot(self) -> int:
        for slot in range(SLOTS):
            if self._slot(slot)[KEY] == 0:
                return slot
        raise SegmentError(f"the box has its {SLOTS} buffers: free one, or make another box")

    def _gap(self, bytes_: int) -> int:
        taken = [
            Extent(int(words[OFFSET]), whole_pages(int(words[BYTES])))
            for words in map(self._slot, range(SLOTS))
            if words[KEY]
        ]
        offset = first_gap(taken, bytes_, self.bytes)
        if offset is None:
            used = sum(extent.bytes for extent in taken)
            raise SegmentError(
                f"the box has no room for {bytes_} bytes: {used} of {self.bytes - DATA_BEGIN} are "
                "taken; free buffers, or make a larger box"
            )
        return offset

    def _free(self, key: int) -> None:
        """Remove a buffer, and free its memory; the next buffer finds zeros there.

        The caller holds all of its locks.
        """
        memory = self._check_open()
        with self._directory():
            words = self._slot(key % SLOTS)
            if words[KEY] != key:
                return
            publish(words, KEY, 0)
            bytes_ = whole_pages(int(words[BYTES]))
            memory.madvise(mmap.MADV_REMOVE, int(words[OFFSET]), bytes_)

    @contextmanager
    def _directory(self) -> Iterator[None]:
        """Hold the lock under which buffers are made and freed."""
        lock = self._words[DIRECTORY_LOCK_WORD:]

        def taken() -> bool:
            return take(lock, 0, self._identity, PATIENT_LOOKS) == 0

        def check_alive() -> None:
            holder = read(lock, 0)
            if holder and not process_identity.is_alive(holder) and read(lock, 0) == holder:
                ended = process_identity.process_id(holder)
                raise PeerLost(f"process {ended} has ended while it made a buffer: make a new box")

        if not nap_until(taken, lambda: None, check_alive, self._timeout_seconds):
            holder = process_identity.process_id(read(lock, 0))
            raise ExchangeTimeout(
                f"waited {self._timeout_seconds:g} s in vain for process {holder}, which makes or "
                "frees a buffer of the box"
            )
        try:
            yield
        finally:
            give_back(lock, 0)
