"""Ranks that are threads of one process, with a memory that keeps only the guaranteed order.

It tests protocols without an MPI library, and more strictly: a word is stored at once, but data
are copied, at random, at once or only at their completion. A protocol that relies on an order that
is not guaranteed then finds notifications without their data.
"""

from __future__ import annotations

import random
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import final

import numpy as np

from affinity.process.cgroup import available_bytes
from knltrain.communication.gaspi.ranks import (
    Bytes,
    Extent,
    Ranks,
    RemoteMemory,
    Room,
    Words,
    check_message,
)
from knltrain.communication.shared_memory.polling import nap_until
from knltrain.errors import ExchangeTimeout

Disturbance = Callable[[int, int], None]
"""disturb(origin, target): called before data arrive; it may sleep."""


def thread_ranks(
    size: int, seed: int = 0, disturb: Disturbance = lambda _origin, _target: None
) -> list[ThreadRanks]:
    """Return ``size`` ranks, each for a thread of its own."""
    shared = _Shared(size)
    return [ThreadRanks(shared, rank, seed, disturb) for rank in range(size)]


@final
class ThreadRanks(Ranks):
    """One of the ranks that `thread_ranks` makes."""

    def __init__(self, shared: _Shared, rank: int, seed: int, disturb: Disturbance) -> None:
        self.rank, self.size = rank, shared.size
        self._shared, self._disturb = shared, disturb
        self._dice = random.Random(f"{seed} {rank}")
        self._told: Counter[int] = Counter()
        self._allocations = 0
        self._groups: Counter[tuple[int, ...]] = Counter()

    def tell(self, text: str, ranks: Sequence[int], timeout_seconds: float) -> dict[int, str]:
        """Tell each of some ranks a text, and hear theirs; those that are late are missing."""
        texts = self._shared.texts
        self._told.update(ranks)
        for rank in ranks:
            texts[self.rank, rank, self._told[rank]] = text
        keys = {rank: (rank, self.rank, self._told[rank]) for rank in ranks}
        nap_until(
            lambda: all(key in texts for key in keys.values()), _nothing, _nothing, timeout_seconds
        )
        return {rank: texts.pop(key) for rank, key in keys.items() if key in texts}

    def room(self) -> Room:
        """Return the memory that is free."""
        free = available_bytes()
        return Room("this computer", free, free)

    def group(self, members: tuple[int, ...]) -> ThreadRanks:
        """Make the threads of a group."""
        number = self._groups[members]
        self._groups[members] += 1
        with self._shared.lock:
            shared = self._shared.groups.setdefault((members, number), _Shared(len(members)))
        return ThreadRanks(shared, members.index(self.rank), number, self._disturb)

    def allocate(self, extents: list[Extent]) -> ThreadMemory:
        """Make a remote memory of zeros."""
        with self._shared.lock:
            if self._allocations == len(self._shared.pieces):
                self._shared.pieces.append([_Piece(extent) for extent in extents])
        pieces = self._shared.pieces[self._allocations]
        self._allocations += 1
        return ThreadMemory(self.rank, pieces, self._dice, self._disturb)

    def send(
        self,
        data: Bytes,
        rank: int,
        timeout_seconds: float,  # noqa: ARG002
        check: Callable[[], None],  # noqa: ARG002
    ) -> None:
        """Copy ``data`` to where another rank receives it."""
        self._disturb(self.rank, rank)
        self._shared.messages[rank].append((self.rank, data.copy()))

    def receive(self, out: Bytes, timeout_seconds: float, check: Callable[[], None]) -> int:
        """Receive the next message to this rank; return who sent it."""
        messages = self._shared.messages[self.rank]
        if not nap_until(lambda: bool(messages), check, _nothing, timeout_seconds):
            raise ExchangeTimeout(f"waited {timeout_seconds:g} s in vain for a message of any rank")
        rank, data = messages[0]
        check_message(rank, data.size, out.size)
        messages.popleft()
        np.copyto(out, data)
        return rank

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def abandon(self) -> None:
        """Do nothing: this rank has no threads."""


@final
class ThreadMemory(RemoteMemory):
    """A remote memory between threads."""

    def __init__(
        self, rank: int, pieces: list[_Piece], dice: random.Random, disturb: Disturbance
    ) -> None:
        self._rank, self._pieces = rank, pieces
        self._dice, self._disturb = dice, disturb
        self._started = threading.local()
        self.extents = [piece.extent for piece in pieces]
        self.memory = pieces[rank].memory

    def put(self, data: Bytes, rank: int, offset_bytes: int) -> None:
        """Copy now or at completion, at random."""
        self._now_or_later(rank, partial(self._copy, data, rank, offset_bytes))

    def get(self, out: Bytes, rank: int, offset_bytes: int) -> None:
        """Copy now or at completion, at random."""
        there = self._pieces[rank].memory[offset_bytes : offset_bytes + out.size]
        self._now_or_later(rank, partial(np.copyto, out, there))

    def compare_swap(self, rank: int, offset_bytes: int, expected: int, value: int) -> int:
        """Set an int64 of ``rank`` if it is as ``expected``; return what it was."""
        with self._pieces[rank].lock:
            place = self._pieces[rank].memory[offset_bytes : offset_bytes + 8].view(np.int64)
            before = int(place[0])
            if before == expected:
                place[0] = value
            return before

    def store(self, rank: int, word: int, value: int) -> None:
        """Write a word of ``rank`` at once, the earliest possible time."""
        with self._pieces[rank].lock:
            self._pieces[rank].words[word] = value

    def complete(self, rank: int) -> None:
        """Copy the deferred data, in any order."""
        deferred = self._deferred(rank)
        self._dice.shuffle(deferred)
        while deferred:
            deferred.pop()()

    def read_words(self, begin: int, out: Words) -> None:
        """Copy own words."""
        with self._own() as words:
            out[:] = words[begin : begin + len(out)]

    def swap_word(self, word: int, value: int) -> int:
        """Write an own word, and return its old value."""
        with self._own() as words:
            before = int(words[word])
            words[word] = value
            return before

    def free(self) -> None:
        """Release this rank's piece."""
        self.memory = np.zeros(0, np.uint8)

    def _copy(self, data: Bytes, rank: int, offset_bytes: int) -> None:
        self._disturb(self._rank, rank)
        self._pieces[rank].memory[offset_bytes : offset_bytes + data.size] = data

    def _now_or_later(self, rank: int, copy: Callable[[], None]) -> None:
        if self._dice.random() < 0.5:
            copy()
        else:
            self._deferred(rank).append(copy)

    def _deferred(self, rank: int) -> list[Callable[[], None]]:
        if not hasattr(self._started, "towards"):
            self._started.towards = defaultdict(list)
        deferred: list[Callable[[], None]] = self._started.towards[rank]
        return deferred

    @contextmanager
    def _own(self) -> Iterator[Words]:
        piece = self._pieces[self._rank]
        with piece.lock:
            yield piece.words


class _Piece:
    """The part of one rank in a remote memory."""

    def __init__(self, extent: Extent) -> None:
        self.extent = extent
        self.memory = np.zeros(extent.size_bytes, np.uint8)
        self.words = np.zeros(extent.words, np.int64)
        self.lock = threading.Lock()


class _Shared:
    """The state that the ranks of a run share."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.texts: dict[tuple[int, int, int], str] = {}  # by sender, receiver, and number
        self.groups: dict[tuple[tuple[int, ...], int], _Shared] = {}
        self.lock = threading.Lock()
        self.messages = [deque[tuple[int, Bytes]]() for _ in range(size)]
        self.pieces: list[list[_Piece]] = []


def _nothing() -> None:
    """Check nothing: a run of threads is not aborted, and threads cannot be killed."""
