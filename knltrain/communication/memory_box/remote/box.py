"""The box across nodes: the directory of buffers on its servers; making and freeing buffers."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt

from knltrain.communication.memory_box.interface import Box
from knltrain.communication.memory_box.local.layout import Extent, first_gap
from knltrain.communication.memory_box.remote.buffer import RemoteBuffer
from knltrain.communication.memory_box.remote.layout import (
    DATA_BEGIN,
    EVENTS,
    EVENTS_BEGIN,
    GENERATION,
    GENERATION_BITS,
    KIND,
    LOCK,
    OFFSET,
    SIZE,
    SLOT_WORDS,
    SLOTS,
    generation,
    shards,
    slot_word,
    whole_pages,
)
from knltrain.communication.memory_box.remote.locks import directory
from knltrain.communication.memory_box.remote.private_buffer import PrivateBuffer
from knltrain.communication.memory_box.remote.vector import Vector
from knltrain.communication.memory_box.remote.window import Window
from knltrain.errors import SegmentError

_KINDS: tuple[np.dtype[Any], ...] = (np.dtype(np.float32), np.dtype(np.int64))


@final
class RemoteBox(Box[Vector]):
    """Memory at some ranks of a communicator, for buffers that are found by keys.

    Made by `create`. After that only `close` is collective. Every server has a thread that
    progresses MPI while its process computes.
    """

    def __init__(self, window: Window) -> None:
        self._window = window

    @classmethod
    def create(
        cls,
        comm: Any,
        bytes_per_server: int,
        servers: Sequence[int] | None = None,
        timeout_seconds: float = 60.0,
        check: Callable[[], None] = lambda: None,
    ) -> RemoteBox:
        """Make a box with room for ``bytes_per_server`` of buffers at each server (collective).

        ``comm`` is a communicator of mpi4py; ``servers`` are those of its ranks that have the
        memory, by default all. ``timeout_seconds`` is how long another process may keep this one
        waiting. While it waits it calls ``check`` now and then, which may raise.

        Raises SegmentError if a server has no room, or if ranks ask for different boxes;
        ExchangeTimeout if ranks are missing; ConfigError if there is no MPI with threads.
        """
        if bytes_per_server < 1:
            raise SegmentError(f"bytes_per_server = {bytes_per_server}: expected 1 at least")
        return cls(Window(comm, bytes_per_server, servers, timeout_seconds, check))

    def create_buffer(
        self, size: int, dtype: npt.DTypeLike = np.float32, private: bool = False
    ) -> Vector:
        """Make a buffer of ``size`` zeros of float32 or int64, cut into equal shards.

        Its key lets others open it. A ``private`` one lies in this process's own memory, and no
        other process can open it. Raises SegmentError if the servers have no room.
        """
        kind = np.dtype(dtype)
        if kind not in _KINDS:
            raise SegmentError(f"dtype {kind}: expected float32 or int64")
        if size < 1:
            raise SegmentError(f"size = {size}: expected at least 1 element")
        self._window.check_open()
        if private:
            return PrivateBuffer(size, kind, self._window.timeout_seconds)
        with directory(self._window):
            slots = self._slots()
            slot = _free_slot(slots)
            offset = self._gap(slots, size, kind)
            self._describe(slot, offset, size, _KINDS.index(kind))
            number = secrets.randbelow(2**GENERATION_BITS - 1) + 1
            self._change_generation(slot, number)
        return RemoteBuffer(number * SLOTS + slot, size, kind, offset, self._window, self._free)

    def open(self, key: int) -> Vector:
        """Open the buffer of that key; SegmentError if there is none."""
        self._window.check_open()
        word, number = slot_word(key % SLOTS), key // SLOTS
        found = self._window.words(0, word, SLOT_WORDS)
        # Read the key again: another process may have made a buffer here since.
        locks = (found[LOCK], self._window.words(0, word + LOCK)[0])
        if key <= 0 or number == 0 or any(generation(lock) != number for lock in locks):
            raise SegmentError(
                f"key {key} opens no buffer of this box: expected one that create_buffer has given "
                "out, and that was not freed; the key of a private buffer opens nothing"
            )
        kind = _KINDS[found[KIND]]
        return RemoteBuffer(key, found[SIZE], kind, found[OFFSET], self._window, self._free)

    def close(self) -> None:
        """Free the memory of all buffers (collective); a second call does nothing."""
        if self._window.is_open:
            self._window.close()

    def abandon(self) -> None:
        """Release this process's part without the others, after a failure (not collective)."""
        self._window.abandon()

    def __enter__(self) -> RemoteBox:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        """Close it; after an error, when others may be missing, only release this rank's part."""
        if error is None:
            self.close()
        else:
            self.abandon()

    def _slots(self) -> list[list[int]]:
        words = self._window.words(0, slot_word(0), SLOTS * SLOT_WORDS)
        return [words[begin : begin + SLOT_WORDS] for begin in range(0, len(words), SLOT_WORDS)]

    def _gap(self, slots: Sequence[Sequence[int]], size: int, kind: np.dtype[Any]) -> int:
        taken = [
            Extent(slot[OFFSET], self._shard_bytes(slot[SIZE], _KINDS[slot[KIND]]))
            for slot in slots
            if generation(slot[LOCK])
        ]
        asked = self._shard_bytes(size, kind)
        offset = first_gap(taken, asked, self._window.bytes, DATA_BEGIN)
        if offset is None:
            used, room = sum(each.bytes for each in taken), self._window.bytes - DATA_BEGIN
            raise SegmentError(
                f"the box has no room for {asked} bytes at each of {len(self._window.ranks)} "
                f"servers: {used} of {room} are taken there; free buffers, or make a larger box, "
                "or one with more servers"
            )
        return offset

    def _shard_bytes(self, size: int, kind: np.dtype[Any]) -> int:
        first = shards(size, kind.itemsize, len(self._window.ranks))[0]
        return whole_pages((first.stop - first.start) * kind.itemsize)

    def _describe(self, slot: int, offset: int, size: int, kind: int) -> None:
        word = slot_word(slot)
        fields = [(OFFSET, offset), (SIZE, size), (KIND, kind)]
        fields += [(EVENTS_BEGIN + event, 0) for event in range(EVENTS)]
        self._window.replace((0, word + field, value) for field, value in fields)

    def _change_generation(self, slot: int, by: int) -> None:
        """Add to the generation in the locks of a slot, atomically beside other processes."""
        self._window.add(
            (server, slot_word(slot) + LOCK, by * GENERATION)
            for server in range(len(self._window.ranks))
        )

    def _free(self, buffer: RemoteBuffer) -> None:
        """Remove a buffer; the caller holds all of its shards exclusively."""
        with directory(self._window):
            self._change_generation(buffer.key % SLOTS, -(buffer.key // SLOTS))


def _free_slot(slots: Sequence[Sequence[int]]) -> int:
    for number, slot in enumerate(slots):
        if generation(slot[LOCK]) == 0:
            return number
    raise SegmentError(f"the box has its {SLOTS} buffers: free one, or make another box")
