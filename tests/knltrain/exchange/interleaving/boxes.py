"""Workers of a real Soft Memory Box on a `Machine`."""

from __future__ import annotations

import copy
import mmap
import secrets
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
import pytest
from interleaving.exploration import Scenario
from interleaving.installation import install
from interleaving.seam import NO_LIMIT, Seam
from interleaving.shared_array import LINE_SHIFT, WORD_SHIFT, SharedArray
from interleaving.steps import Worker

from knltrain.communication.memory_box.local import Buffer, SoftMemoryBox, box, buffer, layout
from knltrain.errors import PeerLost

Program: TypeAlias = Callable[[SoftMemoryBox, list[Buffer]], None]

PAGES = 4
SLOTS, LOCKS = 3, 2
SIZE = 32
"""Elements of a buffer: a cache line for each of its stripes."""
ENDED = 99
"""Identity of a process that is gone."""


class OnBox(Scenario):
    """Worker n runs ``programs[n]`` with a box of its own and the ``buffers`` that were there."""

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        programs: list[Program],
        buffers: int = 1,
        locks_of_dead: tuple[int, ...] = (),
        allowed: type[Exception] | tuple[type[Exception], ...] = (),
    ) -> None:
        for module, name, value in (
            (box, "SLOTS", SLOTS), (box, "EVENTS", 1), (layout, "LOCKS", LOCKS),
            (buffer, "LOCKS", LOCKS),
        ):  # fmt: skip
            patch.setattr(module, name, value)
        self.programs, self.allowed = programs, allowed
        self.box = SoftMemoryBox.create(PAGES * mmap.PAGESIZE, timeout_seconds=NO_LIMIT)
        self._keys_given = 0
        patch.setattr(secrets, "randbits", self._random)
        self.keys = [self.box.create_buffer(SIZE).key for _ in range(buffers)]
        for number in locks_of_dead:
            self.box.open(self.keys[0])._locks[number] = ENDED
        self.seam = Seam(len(programs))
        install(self.seam, patch)
        self.machine = self.seam.machine
        self._share(patch)

    def begin(self) -> list[Callable[[], None]]:
        self.seam.begin()
        for part, start in zip(self._parts, self._start, strict=True):
            part[:] = start
        self._keys_given = len(self.keys)
        return [self._worker(number) for number in range(len(self.programs))]

    def state(self) -> object:
        return [part.tobytes() for part in self._parts], self._keys_given, self.seam.order_state()

    def check_end(self, workers: list[Worker]) -> None:
        died = any(worker.died for worker in workers)
        expected = (PeerLost, self.allowed) if died else self.allowed
        for worker in workers:
            if not (worker.died or worker.error is None or isinstance(worker.error, expected)):
                raise AssertionError(f"worker {worker.number} ended with {worker.error!r}")

    def content(self, number: int = 0) -> np.ndarray:
        """What is in a buffer, for those outside."""
        slot = self.keys[number] % SLOTS
        offset = int(self._words[layout.slot_word(slot) + layout.OFFSET]) - layout.DATA_BEGIN
        return self._parts[1][offset : offset + SIZE * 4].view(np.float32)

    def close(self) -> None:
        self.machine.close()
        self.box.close()

    def _worker(self, number: int) -> Callable[[], None]:
        self.seam.acting = number
        own = copy.copy(self.box)
        own._identity = self.seam.identities[number]
        buffers = [own.open(key) for key in self.keys]
        return lambda: self.programs[number](own, buffers)

    def _random(self, bits: int) -> int:
        """Every key another one; only who holds the directory asks."""
        self._keys_given += 1
        return self._keys_given

    def _share(self, patch: pytest.MonkeyPatch) -> None:
        memory, seam = self.box._memory, self.seam
        assert memory is not None
        raw = np.frombuffer(memory, np.uint8)
        begin = layout.DATA_BEGIN
        self._parts = [raw[: layout.slot_word(SLOTS) * 8], raw[begin : begin + 2**12 * PAGES]]
        self._start = [part.copy() for part in self._parts]
        self._words = self._parts[0].view(np.int64)
        words = seam.share(self.box._words, WORD_SHIFT)
        seam.share_word(words, layout.DIRECTORY_LOCK_WORD, "the directory's lock")
        for slot in range(SLOTS):
            first = layout.slot_word(slot)
            for field in ("KEY", "OFFSET", "BYTES", "KIND"):
                word = first + getattr(layout, field)
                seam.share_word(words, word, f"{field.lower()} of buffer {slot}")
            for event in range(layout.EVENTS):
                word = first + layout.EVENTS_BEGIN + event * layout.APART_WORDS
                seam.share_word(words, word, f"event {event} of buffer {slot}")
            for lock in range(LOCKS):
                word = first + layout.LOCKS_BEGIN + lock * layout.APART_WORDS
                seam.share_word(words, word, f"lock {lock} of buffer {slot}")
        self.box._words = words
        self.box._memory = _Memory(memory, seam)  # type: ignore[assignment]
        patch.setattr(box, "np", SimpleNamespace(**{**vars(np), "frombuffer": _values}))


class _Memory:
    """The box's memory, whose values are shared arrays, and which tells when it is emptied."""

    def __init__(self, memory: mmap.mmap, seam: Seam) -> None:
        self.memory, self._seam = memory, seam

    def values(self, *arguments: Any) -> SharedArray:
        return self._seam.share(np.frombuffer(self.memory, *arguments), LINE_SHIFT)

    def madvise(self, advice: int, offset: int, bytes_: int) -> None:
        self._seam.write(self.values(np.uint8, bytes_, offset))
        self.memory.madvise(advice, offset, bytes_)


def _values(memory: _Memory, *arguments: Any) -> SharedArray:
    return memory.values(*arguments)
