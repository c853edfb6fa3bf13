"""A buffer that lies on the servers of a box, a shard at each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
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

    - `read` and `write` take no locks: a read during a write gets some elements of either. The
      buffer must not be freed meanwhile.
    - `accumulate` adds each element atomically at its owner, so N processes that accumulate at once
      add up exactly.
    - `axpby` and `scale` hold a shard exclusively while they work on it.

    Sources are read without locks. All operations return when they are done at the owners.

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
        """Copy elements from ``offset`` on to ``out`` (k,); one more copy if not contiguous."""
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
        """See `Vector`: one round trip if all elements lie at one owner, else two."""
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

    def add(self, values: AnyArray, offset: int = 0) -> None:
        """Add ``values`` (k,), contiguous, to the elements from ``offset`` on, as `accumulate`."""
        check_part(self, values, offset)
        servers = [server for server, _, _ in self._parts(offset, values)]
        with self._locks.shared(servers):
            self._add(offset, values)
            self._window.settle(servers)

    @property
    def owners(self) -> list[int]:
        """The rank where each of `parts` lies."""
        return [self._window.ranks[server] for server in self.servers]

    @property
    def parts(self) -> list[slice]:
        """The shards that have elements."""
        return [self.shards[server] for server in self.servers]

    def alone(self, part: int) -> AbstractContextManager[None]:
        """Hold a shard exclusively."""
        return self._locks.alone(self.servers[part])

    def notify(self, event: int = 0) -> None:
        """Signal ``event`` of this buffer, 0 <= event < 8, to all who wait for it."""
        check_event(event)
        self.check_open()
        self._window.add([(0, self._events_word + event, 1)])

    def happened(self, event: int) -> int:
        """Return how often an event was signalled since the buffer was made."""
        return self._window.words(0, self._events_word + event)[0]

    def free(self) -> None:
        """Return its memory to the box; its key is invalid afterwards.

        Waits for vector operations on it to end.
        """
        with ExitStack() as alone:
            for server in range(len(self.shards)):
                alone.enter_context(self._locks.alone(server))
            for begin, count in _blocks(0, self.size, _BLOCK):
                self._put(begin, np.zeros(count, self.dtype))  # the next buffer must find zeros
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
        """Read elements into the contiguous ``out``, and finish the requests ``asked`` before."""
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
        """Begin to add at all owners; complete when `settle` has returned."""
        requests, servers = [], []
        for server, at, part in self._parts(begin, values):
            requests += self._window.accumulate(server, at, part)
            servers.append(server)
        self._window.finish(servers, requests)

    def _alone(self, work: Callable[[int, AnyArray], None]) -> None:
        """Call ``work(begin, target)`` on the whole buffer, one shard after the other."""
        scratch = np.empty(min(self.size, _BLOCK), self.dtype)
        for server in self.servers:
            shard = self.shards[server]
            with self._locks.alone(server):
                for begin, count in _blocks(shard.start, shard.stop, _BLOCK):
                    target = self.lend(begin, count, scratch[:count])
                    work(begin, target)
                    self._put(begin, target)

    def _parts(self, begin: int, values: AnyArray) -> Iterator[tuple[int, int, AnyArray]]:
        """Cut values by server: its number, the offset in bytes there, the values."""
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
