"""Memory of batches made ahead: a ring of slots for each of the workers that a process starts.

Batches are numbered over the whole run, from 0. Batch b of a worker lies in slot b mod K of its K
slots. Each word that one process writes and others read has 128 bytes to itself:

- `wanted` of a worker: 1 + the number of the batch that it takes next; 0 before it has begun,
  CLOSED once it takes no more. Slots of earlier batches are free.
- `ready` of a slot: 1 + the number of the batch that lies in it whole.

A slot is written while its worker wants a later batch than the one that was in it, and read while
the worker wants the one that is in it. So neither needs a lock.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Final, final

import numpy as np
import numpy.typing as npt

from affinity import MemoryPlan, MemoryPolicyError, map_shared, place_mapping
from knltrain.communication.shared_memory import anonymous_file, process_identity
from knltrain.communication.shared_memory.anonymous_file import FLOAT_BYTES, page_bytes_for
from knltrain.data.dataset import Batch
from knltrain.errors import SegmentError
from knltrain.input.batch_shape import BatchShape, rounded_up

CLOSED: Final = -1
"""The `wanted` word of a worker that takes no more batches."""

_LINE_WORDS = 16
_WORD_BYTES = 8
_ABORT, _POOL, _OF_WORKERS = 0, 1, 2
"""Lines of words; behind them each worker has one for `wanted`, and one for each of its slots."""


@final
class BatchRing:
    """The rings of `workers` workers with `slots` batches each, mapped into this process."""

    def __init__(self, fd: int, workers: int, slots: int, shape: BatchShape) -> None:
        """Map the file; SegmentError if it is not of that size."""
        self.fd, self.workers, self.slots = fd, workers, slots
        self._shape = shape
        size = ring_bytes(workers, slots, shape)
        if os.fstat(fd).st_size != size:
            raise SegmentError(
                f"file descriptor {fd} has {os.fstat(fd).st_size} bytes, but batches for {workers} "
                f"workers take {size}: start all processes of a run from one installation"
            )
        page_bytes = page_bytes_for(slots * shape.bytes // FLOAT_BYTES)
        try:
            self._memory = map_shared(fd, size, page_bytes)
        except MemoryPolicyError as error:
            raise SegmentError(f"{error}; {anonymous_file.way_to_more(fd)}") from None
        words = _word_bytes(workers, slots) // _WORD_BYTES
        self._words: npt.NDArray[np.int64] = np.frombuffer(self._memory, np.int64, words)
        self._batches = [
            [self._batch(worker, slot) for slot in range(slots)] for worker in range(workers)
        ]

    @classmethod
    def create(cls, workers: int, slots: int, shape: BatchShape) -> BatchRing:
        """Make rings, whose `fd` workers and pool inherit; SegmentError if there is no room."""
        size = ring_bytes(workers, slots, shape)
        fd = anonymous_file.create("memfd", Path("/dev/shm"), size, "knltrain-batches")
        try:
            anonymous_file.reserve(fd, 0, _word_bytes(workers, slots))
            return cls(fd, workers, slots, shape)
        except BaseException:
            os.close(fd)
            raise

    def place(self, worker: int, memory: MemoryPlan) -> tuple[str, ...]:
        """Set the NUMA nodes of a worker's slots as its placement says; return remarks.

        If the placement has arenas, they belong to "batches". The process that creates the rings
        calls this before any worker claims its own.
        """
        wanted = memory.arena("batches") or memory
        if wanted.mode == "default":
            return ()
        part, required = self._part(worker), memory.policy == "strict"
        try:
            return place_mapping(part, wanted.mode, wanted.nodes, required=required).notes
        except MemoryPolicyError as error:
            raise SegmentError(f"the batches of worker {worker}: {error}") from None

    def claim(self, worker: int) -> None:
        """Allocate a worker's slots, where `place` says, or else near the calling thread."""
        begin = self._begin(worker)
        anonymous_file.reserve(self.fd, begin, self.slots * self._shape.bytes)

    def batch(self, worker: int, number: int) -> Batch:
        """The slot of batch `number` of a worker, as a view."""
        return self._batches[worker][number % self.slots]

    def want(self, worker: int, number: int) -> None:
        """Say that a worker takes batch `number` next, and no earlier one."""
        self._store(self._line(worker), number + 1)

    def leave(self, worker: int) -> None:
        """Say that a worker takes no more batches."""
        self._store(self._line(worker), CLOSED)

    def wanted(self, worker: int) -> int | None:
        """The batch that a worker takes next; None before it has begun, CLOSED after its last."""
        found = self._load(self._line(worker))
        return found - 1 if found > 0 else (found or None)

    def put(self, worker: int, number: int) -> None:
        """Say that batch `number` lies in its slot whole."""
        self._store(self._line(worker, number), number + 1)

    def is_ready(self, worker: int, number: int) -> bool:
        """Whether batch `number` lies in its slot whole."""
        return self._load(self._line(worker, number)) == number + 1

    @property
    def pool(self) -> int:
        """The `process_identity` of the process that fills the rings; 0 if none does yet."""
        return self._load(_POOL * _LINE_WORDS)

    def serve(self) -> None:
        """Become the process that fills the rings."""
        self._store(_POOL * _LINE_WORDS, process_identity.own_identity())

    @property
    def abort_code(self) -> int:
        """Why the run is being aborted, 0 if it is not; the codes are those of `Segment.abort`."""
        return int(self._words[_ABORT * _LINE_WORDS])

    def abort(self, code: int) -> None:
        """Tell pool and workers to give up; the first code is kept."""
        if self.abort_code == 0:
            self._words[_ABORT * _LINE_WORDS] = code

    def close(self) -> None:
        """Close the file; the memory is freed with the last view of it."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1
        self._memory = memoryview(b"")
        self._words = np.zeros((_OF_WORKERS + self.workers) * _LINE_WORDS, np.int64)
        self._batches = []

    def _load(self, index: int) -> int:
        # Only here: the process that starts the workers needs no compiler.
        from knltrain.communication.shared_memory.atomics import read

        return int(read(self._words, index))

    def _store(self, index: int, value: int) -> None:
        from knltrain.communication.shared_memory.atomics import publish

        publish(self._words, index, value)

    def _line(self, worker: int, number: int | None = None) -> int:
        own = _OF_WORKERS + worker * (1 + self.slots)
        return (own if number is None else own + 1 + number % self.slots) * _LINE_WORDS

    def _begin(self, worker: int) -> int:
        return _word_bytes(self.workers, self.slots) + worker * self.slots * self._shape.bytes

    def _part(self, worker: int) -> memoryview:
        begin = self._begin(worker)
        return self._memory[begin : begin + self.slots * self._shape.bytes]

    def _batch(self, worker: int, slot: int) -> Batch:
        size = self._shape.bytes
        return self._shape.batch_in(self._part(worker)[slot * size : (slot + 1) * size])


def ring_bytes(workers: int, slots: int, shape: BatchShape) -> int:
    """Of the rings of so many workers, words included."""
    return _word_bytes(workers, slots) + workers * slots * shape.bytes


def _word_bytes(workers: int, slots: int) -> int:
    lines = _OF_WORKERS + workers * (1 + slots)
    return rounded_up(lines * _LINE_WORDS * _WORD_BYTES, mmap.PAGESIZE)
