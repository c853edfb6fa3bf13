"""The one-sided layer: GASPI segments, and the queues by which a rank writes to other ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

from knltrain.communication.gaspi.group import Group, meet
from knltrain.communication.gaspi.queue import Queue
from knltrain.communication.gaspi.ranks import Extent, Ranks
from knltrain.communication.gaspi.segment import AnyArray, Segment, as_bytes, nothing
from knltrain.errors import CollectiveError, KnltrainError


@final
class AddressSpace:
    """The global address space that ``ranks`` share (GASPI 17.1).

    A rank writes into segments of other ranks, which take no part and learn of it by notifications.
    It has ``queues``, each with room for ``depth`` posts; queues do not wait for each other. No
    call waits longer than ``timeout_seconds``, or the limit it is given.

    All ranks create the same segments in the same order.
    """

    def __init__(
        self, ranks: Ranks, queues: int = 2, depth: int = 1024, timeout_seconds: float = 60.0
    ) -> None:
        for name, value in (("queues", queues), ("depth", depth)):
            if value < 1:
                raise CollectiveError(f"{name}={value}: expected 1 or more")
        self._ranks = ranks
        self._timeout_seconds = timeout_seconds
        self._queues = [
            Queue(f"queue {number} of rank {ranks.rank}", depth) for number in range(queues)
        ]
        self._segments: list[Segment] = []
        self._groups: list[Group] = []

    @property
    def rank(self) -> int:
        """The number of this rank."""
        return self._ranks.rank

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return self._ranks.size

    @property
    def queues(self) -> int:
        """The number of queues."""
        return len(self._queues)

    def create_segment(self, size_bytes: int, notifications: int) -> Segment:
        """Create a segment of ``size_bytes`` zeros at this rank (collective).

        It has ``notifications`` here, numbered from 0, none of which has arrived. Both numbers may
        differ between ranks. Raises CollectiveError for a size below 0 or fewer than 1
        notification, SegmentError if there is no memory, ExchangeTimeout with the missing ranks.
        """
        if size_bytes < 0 or notifications < 1:
            raise CollectiveError(
                f"size_bytes={size_bytes}, notifications={notifications}: expected no less than 0 "
                "bytes, and 1 notification"
            )
        number = len(self._segments)
        self.barrier(what=f"segment {number} to be made")
        memory = self._ranks.allocate(Extent(size_bytes, notifications))
        segment = Segment(number, self.rank, memory, self._queues, self._timeout_seconds)
        self._segments.append(segment)
        return segment

    def wait(self, queue: int = 0, timeout_seconds: float | None = None) -> None:
        """Return when all posts on ``queue`` are done, so that their data may be changed.

        gaspi_wait guarantees no more; here the data are also at their targets. Raises
        ExchangeTimeout with the first post that is not done, CollectiveError if MPI failed.
        """
        self._queues[queue].wait(self._limit(timeout_seconds))

    def is_done(self, post: int, queue: int = 0) -> bool:
        """Tell whether the posts on ``queue`` up to number ``post`` are done."""
        return self._queues[queue].is_done(post)

    def group(self, members: Sequence[int]) -> Group:
        """Make a group of some ranks, of which this is one (collective among them, no timeout).

        Members of several groups make them in the same order. Raises CollectiveError for ranks that
        are none, or twice there, or without this one.
        """
        chosen = tuple(members)
        known = all(0 <= rank < self.size for rank in chosen)
        if not known or len(set(chosen)) < len(chosen) or self.rank not in chosen:
            raise CollectiveError(
                f"members={list(chosen)}: expected some of 0 to {self.size - 1}, each once, and "
                f"{self.rank} among them"
            )
        made = Group(self._ranks.group(chosen), chosen, self._timeout_seconds)
        self._groups.append(made)
        return made

    def passive_send(
        self,
        data: AnyArray,
        rank: int,
        timeout_seconds: float | None = None,
        check: Callable[[], None] = nothing,
    ) -> None:
        """Send contiguous ``data`` to another rank, which receives it (gaspi_passive_send).

        Both take part, by one message. Returns when ``data`` may be changed: small ones may not
        have been received yet. While it waits it calls ``check``, which may raise. Raises
        ExchangeTimeout if large ones are not received, CollectiveError for a wrong rank.
        """
        self._check_other(rank)
        self._ranks.send(as_bytes(data), rank, self._limit(timeout_seconds), check)

    def passive_receive(
        self,
        out: AnyArray,
        timeout_seconds: float | None = None,
        check: Callable[[], None] = nothing,
    ) -> int:
        """Receive the next data that any rank has sent; return its number (gaspi_passive_receive).

        ``out`` is contiguous and as long as what was sent. What a rank sends comes in its order.
        Only one thread at a time may receive. Raises ExchangeTimeout, CollectiveError for another
        length, and what ``check`` raises.
        """
        return self._ranks.receive(as_bytes(out), self._limit(timeout_seconds), check)

    def _check_other(self, rank: int) -> None:
        if not 0 <= rank < self.size or rank == self.rank:
            raise CollectiveError(
                f"rank={rank}: expected another one than {self.rank}, of 0 to {self.size - 1}"
            )

    def barrier(self, timeout_seconds: float | None = None, what: str = "a barrier") -> None:
        """Wait for all ranks (collective); ExchangeTimeout names those that do not come."""
        meet(self._ranks, range(self.size), self._limit(timeout_seconds), what)

    def close(self) -> None:
        """Wait for all ranks, then end the queues and free the segments (collective).

        Raises what `wait` and `barrier` do; the threads of this rank end in any case.
        """
        try:
            for queue in self._queues:
                queue.wait(self._timeout_seconds)
            self.barrier(what="the end")
        except KnltrainError:
            self.abandon()
            raise
        for queue in self._queues:
            queue.close(self._timeout_seconds)
        while self._groups:
            self._groups.pop().close()
        while self._segments:
            self._segments.pop().free()
        self._ranks.close()

    def abandon(self) -> None:
        """End the threads of this rank without the others, after a failure (not collective)."""
        for queue in self._queues:
            queue.close(0)
        self._ranks.abandon()

    def _limit(self, timeout_seconds: float | None) -> float:
        return self._timeout_seconds if timeout_seconds is None else timeout_seconds
