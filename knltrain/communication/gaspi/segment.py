"""A GASPI segment: memory at each rank that the others write into, with notifications."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import numpy as np

from knltrain.communication.gaspi.arguments import INT64, AnyArray, as_bytes, seconds, whole
from knltrain.communication.gaspi.queue import Post, Queue, chosen
from knltrain.communication.gaspi.ranks import RemoteMemory
from knltrain.communication.shared_memory.polling import nap_until
from knltrain.errors import CollectiveError, ExchangeTimeout


@final
class Segment:
    """A segment of an `AddressSpace`; the terms are those of the standard (GASPI 17.1).

    ``memory`` (uint8) is this rank's part, an ordinary array until the address space is closed;
    views of it are invalid then. ``data`` to be written is a contiguous array of any dtype (GASPI
    takes it from a segment). It must not change until its post is done. ``offset_bytes`` is an
    offset in the part of the target ``rank``, which may be this one.

    A post returns its number in its queue. It raises ExchangeTimeout if the queue stays full for
    ``timeout_seconds``, the limit of the address space. All calls raise CollectiveError for wrong
    arguments, at once, and when the address space is closed (``check_open``).
    """

    def __init__(
        self,
        number: int,
        rank: int,
        memory: RemoteMemory,
        queues: list[Queue],
        timeout_seconds: float,
        check_open: Callable[[], None],
    ) -> None:
        self._name = f"segment {number} of rank {rank}"
        self._remote, self._queues = memory, queues
        self._timeout_seconds, self._check_open = timeout_seconds, check_open
        self._words = np.zeros(memory.extents[rank].words, np.int64)
        self.memory = memory.memory

    def write(self, data: AnyArray, rank: int, offset_bytes: int, queue: int = 0) -> int:
        """Post a write without a notification (gaspi_write)."""
        return self._post(queue, self._to(rank, data, offset_bytes))

    def read(self, out: AnyArray, rank: int, offset_bytes: int, queue: int = 0) -> int:
        """Post a read into contiguous ``out`` (gaspi_read); it is filled when the post is done.

        Not ordered with writes of this rank that are not done yet.
        """
        there = self._to(rank, out, offset_bytes, is_read=True)
        return self._post(
            queue, Post(self._remote, rank, offset_bytes=there.offset_bytes, out=there.data)
        )

    def fetch_add(self, rank: int, offset_bytes: int, value: int) -> int:
        """Add to an int64 of ``rank``, and return what it was (gaspi_atomic_fetch_add).

        Atomic beside these and swaps; adding 0 reads it. Sums wrap around. May wait until that rank
        makes progress in its MPI library.
        """
        begin = self._word(rank, offset_bytes)
        value, before = whole(self._name, "value", value, INT64), 0
        while True:
            after = (before + value + 2**63) % 2**64 - 2**63
            found = self._remote.compare_swap(rank, begin, before, after)
            if found == before:
                return before
            before = found

    def compare_swap(self, rank: int, offset_bytes: int, expected: int, value: int) -> int:
        """Set an int64 of ``rank`` if it is as ``expected`` (gaspi_atomic_compare_swap).

        Returns what it was; atomic beside others of these and additions.
        """
        begin = self._word(rank, offset_bytes)
        expected = whole(self._name, "expected", expected, INT64)
        value = whole(self._name, "value", value, INT64)
        return self._remote.compare_swap(rank, begin, expected, value)

    def write_notify(
        self,
        data: AnyArray,
        rank: int,
        offset_bytes: int,
        notification: int,
        value: int,
        queue: int = 0,
    ) -> int:
        """Post a write, and a notification that is visible after it (gaspi_write_notify).

        The notification is also visible after all data posted before on the same ``queue`` to the
        same ``rank``. It is a word that keeps the last ``value``, 1 or more (GASPI: 32 bits; here
        63).
        """
        self._check_notification(rank, notification, value)
        post = self._to(rank, data, offset_bytes)
        return self._post(
            queue, Post(self._remote, rank, post.data, post.offset_bytes, notification, value)
        )

    def notify(self, rank: int, notification: int, value: int, queue: int = 0) -> int:
        """Post a notification alone, ordered as that of `write_notify` (gaspi_notify)."""
        self._check_notification(rank, notification, value)
        return self._post(queue, Post(self._remote, rank, notification=notification, value=value))

    def notify_waitsome(
        self, begin: int = 0, count: int | None = None, *, timeout_seconds: float
    ) -> int:
        """Wait until one of ``count`` own notifications from ``begin`` on has arrived.

        Without ``count``, all from ``begin`` on are waited for. Returns the first that has arrived
        (gaspi_notify_waitsome). Raises ExchangeTimeout.
        """
        limit_seconds, found = seconds(timeout_seconds), list[int]()

        def look() -> bool:
            found[:] = self.arrived(begin, count)
            return bool(found)

        if not nap_until(look, nothing, nothing, limit_seconds):
            last = begin + self._count(begin, count) - 1
            raise ExchangeTimeout(
                f"{self._name}: waited {timeout_seconds:g} s in vain for one of the notifications "
                f"{begin} to {last}"
            )
        return found[0]

    def arrived(self, begin: int = 0, count: int | None = None) -> list[int]:
        """Return which of ``count`` own notifications have arrived (waitsome with GASPI_TEST)."""
        words = self._words[: self._count(begin, count)].copy()
        self._remote.read_words(begin, words)
        return [begin + int(place) for place in np.flatnonzero(words)]

    def notify_reset(self, notification: int) -> int:
        """Reset an own notification and return its value, or 0, atomically (gaspi_notify_reset).

        The data that belong to the value are visible from now on.
        """
        self._count(notification, 1)
        return self._remote.swap_word(notification, 0)

    def free(self) -> None:
        """Free the memory (collective; `AddressSpace.close` calls it)."""
        self.memory = np.zeros(0, np.uint8)
        self._words = self._words[:0]
        self._remote.free()

    def _to(self, rank: int, data: AnyArray, offset_bytes: int, is_read: bool = False) -> Post:
        self._check_rank(rank)
        there, bytes_ = self._remote.extents[rank].size_bytes, as_bytes(data, is_written=is_read)
        begin = whole(self._name, "offset_bytes", offset_bytes, INT64, f" of rank {rank}")
        if begin < 0 or begin + data.nbytes > there:
            raise CollectiveError(
                f"{self._name}: {data.nbytes} bytes at offset_bytes={begin} of rank {rank}: "
                f"expected a place within its {there} bytes"
            )
        return Post(self._remote, rank, bytes_, begin)

    def _post(self, queue: int, post: Post) -> int:
        return chosen(self._queues, queue, self._name).post(post, self._timeout_seconds)

    def _check_notification(self, rank: int, notification: int, value: int) -> None:
        self._check_rank(rank)
        last = self._remote.extents[rank].words - 1
        whole(self._name, "notification", notification, (0, last), f" of rank {rank}")
        more = f" of notification {notification}; 0 means that it has not come"
        whole(self._name, "value", value, (1, INT64[1]), more)

    def _word(self, rank: int, offset_bytes: int) -> int:
        """Return where an int64 begins; CollectiveError if none can be there."""
        self._check_rank(rank)
        there = self._remote.extents[rank].size_bytes
        begin = whole(self._name, "offset_bytes", offset_bytes, INT64, f" of rank {rank}")
        if begin % 8 or not 0 <= begin <= there - 8:
            raise CollectiveError(
                f"{self._name}: an int64 at offset_bytes={begin} of rank {rank}: expected a "
                f"multiple of 8 within its {there} bytes"
            )
        return begin

    def _check_rank(self, rank: int) -> None:
        self._check_open()
        whole(self._name, "rank", rank, (0, len(self._remote.extents) - 1))

    def _count(self, begin: int, count: int | None) -> int:
        """Return the number of notifications; CollectiveError if there are not as many."""
        self._check_open()
        own = self._words.size
        whole(self._name, "begin", begin, INT64)
        meant = own - begin if count is None else whole(self._name, "count", count, INT64)
        if begin < 0 or meant < 1 or begin + meant > own:
            raise CollectiveError(
                f"{self._name}: begin={begin}, count={count}: expected some of its own "
                f"notifications, of which there are {own}"
            )
        return meant


def nothing() -> None:
    """Check nothing: `Ranks` has no failure detector."""
