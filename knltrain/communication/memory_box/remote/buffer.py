"""A buffer that lies on the servers of a box, a shard at each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, final

import numpy as np

from knltrain.communication.memory_box.remote.layout import (
    EVENTS_BEGIN,
    SLOTS,
    WORD_BYTES,
    shards,
    slot_word,
)
from knltrain.communication.memory_box.remote.locks import ShardLocks
from knltrain.communication.memory_box.remote.vector import (
    AnyArray,
    Vector,
    check_event,
    check_float,
    check_operand,
    check_part,
)
from knltrain.communication.memory_box.remote.window import Window
from vectorized_ops.numba import vectors

_BLOCK = 2**20

Free = Callable[["RemoteBuffer"], None]


@final
class RemoteBuffer(Vector):
    """``size`` elements that every process with the ``key`` can work on, from any node.

    `read` and `write` go past all locks: who reads while another writes finds some of either.
    Nobody may free the buffer meanwhile. `accumulate` adds each element in one piece where it lies,
    so that N processes that do so at once add up exactly; `axpby` and `scale` have a shard for
    themselves while they work on it. Sources are only read, past their locks. All of them return
    when they are done at the owners.

    Made by `RemoteBox.create_buffer` and `RemoteBox.open`. Several threads may work on it.
    """

    def __init__(
        self, key: int, size: int, dtype: np.dtype[Any], offset: int, window: Window, free: Free
    ) -> None:
        super().__init__(key, size, dtype, window.timeout_seconds)
        self._window, self._offset, self._give_back = window, offset, free
        self._locks = ShardLocks(window, key)
        self._events_word = slot_word(key % SLOTS) + EVENTS_BEGIN
        self.shards = shards(size, dtype.itemsize, len(window.ranks))
        self.servers = [n for n, shard in enumerate(self.shards) if shard.stop > shard.start]

    def read(self, out: AnyArray, offset: int = 0) -> None:
        """Copy elements from ``offset`` on to ``out`` (k,), which is contiguous or copied once."""
        check_part(self, out, offset)
        found = out if out.flags.c_contiguous else np.empty(out.size, self.dtype)
        lock = np.zeros(1, np.int64)
        self._get(offset, found, [self._locks.ask(lock)])
        self._locks.check(int(lock[0]))
        if found is not out:
            np.copyto(out, found)

    def write(self, values: AnyArray, offset: int = 0) -> None:
        """Copy ``values`` (k,) to the elements from ``offset`` on."""
        check_part(self, values, offset)
        self.check_open()
        self._put(offset, np.ascontiguousarray(values))

    def announce(self, value: int, place: int) -> AnyArray:
        """See `Vector`: in one trip where all elements lie at one owner, in two else."""
        found = np.zeros(self.size, np.int64)
        check_part(self, found[:1], place)
        parts = [(server, at // WORD_BYTES, part) for server, at, part in self._parts(0, found)]
        ((server, at, _),) = self._parts(place, found[:1])
        self._window.replace_and_read((server, at // WORD_BYTES, value), parts)
        return found

    def accumulate(self, source: Vector) -> None:
        """Add another buffer of the same size and dtype to this one, equations (7) of SEASGD.

        One MPI_Accumulate to each owner for every 4 MiB, where ``source`` is private.
        """
        check_operand(self, source)
        with self._locks.shared(self.servers):
            for begin, count in _blocks(0, self.size, _BLOCK if source.key else self.size):
                self._add(begin, source.lend(begin, count))
            self._window.settle(self.servers)

    def axpby(self, a: float, source: Vector, b: float) -> None:
        """Set this buffer to a times itself plus b times another of the same size, float32."""
        check_float(self)
        check_operand(self, source)
        lent = np.empty(min(self.size, _BLOCK), self.dtype)

        def work(begin: int, target: AnyArray) -> None:
            values = source.lend(begin, target.size, lent[: target.size])
            vectors.axpby(target, float(a), values, float(b))

        self._alone(work)

    def scale(self, a: float) -> None:
        """Multiply this float32 buffer by ``a``."""
        check_float(self)
        self._alone(lambda _, target: vectors.scale(target, float(a)))

    def notify(self, event: int = 0) -> None:
        """Tell all who wait for ``event`` of this buffer, 0 <= event < 8, that it has happened."""
        check_event(event)
        self.check_open()
        self._window.add([(0, self._events_word + event, 1)])

    def happened(self, event: int) -> int:
        """Return how often an event has happened since the buffer was made."""
        return self._window.words(0, self._events_word + event)[0]

    def free(self) -> None:
        """Give its memory back to the box; its key opens nothing any more.

        Waits for those that do vector operations on it.
        """
        with ExitStack() as alone:
            for server in range(len(self.shards)):
                alone.enter_context(self._locks.alone(server))
            for begin, count in _blocks(0, self.size, _BLOCK):
                self._put(begin, np.zeros(count, self.dtype))  # as the next one is to find it
            self._give_back(self)

    def check_open(self) -> None:
        """Raise SegmentError if it was freed, or the box is closed."""
        self._locks.check_open()

    def lend(self, begin: int, count: int, scratch: AnyArray | None = None) -> AnyArray:
        """Read elements into ``scratch``, which is contiguous, or a new array, and return it."""
        found = np.empty(count, self.dtype) if scratch is None else scratch
        self._get(begin, found)
        return found

    def _get(self, begin: int, out: AnyArray, asked: Sequence[Any] = ()) -> None:
        """Read elements into ``out``, which is contiguous, and finish what was asked before."""
        requests, servers = [*asked], []
        for server, at, part in self._parts(begin, out):
            requests += self._window.get(server, at, part)
            servers.append(server)
        self._window.finish(servers, requests)

    def _put(self, begin: int, values: AnyArray) -> None:
        parts = list(self._parts(begin, values))
        servers = [server for server, _, _ in parts]
        requests = [each for part in parts for each in self._window.put(*part)]
        self._window.finish(servers, requests)
        self._window.settle(servers)

    def _add(self, begin: int, values: AnyArray) -> None:
        """Add at all owners at once; done when `settle` has returned."""
        requests, servers = [], []
        for server, at, part in self._parts(begin, values):
            requests += self._window.accumulate(server, at, part)
            servers.append(server)
        self._window.finish(servers, requests)

    def _alone(self, work: Callable[[int, AnyArray], None]) -> None:
        """Have ``work(begin, target)`` done on all of the buffer, shard after shard."""
        scratch = np.empty(min(self.size, _BLOCK), self.dtype)
        for server in self.servers:
            shard = self.shards[server]
            with self._locks.alone(server):
                for begin, count in _blocks(shard.start, shard.stop, _BLOCK):
                    target = self.lend(begin, count, scratch[:count])
                    work(begin, target)
                    self._put(begin, target)

    def _parts(self, begin: int, values: AnyArray) -> Iterator[tuple[int, int, AnyArray]]:
        """Cut values into what lies at each server: its number, the bytes where, the values."""
        for server in self.servers:
            shard = self.shards[server]
            first, last = max(shard.start, begin), min(shard.stop, begin + values.size)
            if first < last:
                at = self._offset + (first - shard.start) * self.dtype.itemsize
                yield server, at, values[first - begin : last - begin]


def _blocks(begin: int, end: int, most: int) -> Iterator[tuple[int, int]]:
    """Cut elements into blocks: the first of each, and how many it has."""
    for first in range(begin, end, most):
        yield first, min(most, end - first)
