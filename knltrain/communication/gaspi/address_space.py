"""The one-sided layer: GASPI segments, and the queues by which a rank writes to other ranks."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import final

from affinity.numbers import format_bytes
from knltrain.communication.gaspi.arguments import INT64, AnyArray, as_bytes, seconds, whole
from knltrain.communication.gaspi.group import Group, meet
from knltrain.communication.gaspi.queue import Queue, chosen
from knltrain.communication.gaspi.ranks import Extent, Ranks, Room
from knltrain.communication.gaspi.segment import Segment, nothing
from knltrain.errors import CollectiveError, KnltrainError, SegmentError


@final
class AddressSpace:
    """The global address space that ``ranks`` share (GASPI 17.1).

    A rank writes into segments of other ranks, which take no part and learn of it by notifications.
    It has ``queues``, each with room for ``depth`` posts; queues do not wait for each other. No
    call waits longer than ``timeout_seconds``, or the limit it is given.

    All ranks make the same collective calls in the same order. Where they do not, a CollectiveError
    says at all of them which call each is in. After `close` all calls raise CollectiveError.
    """

    def __init__(
        self, ranks: Ranks, queues: int = 2, depth: int = 1024, timeout_seconds: float = 60.0
    ) -> None:
        for name, value in (("queues", queues), ("depth", depth)):
            whole("AddressSpace", name, value, (1, INT64[1]))
        self._ranks = ranks
        self._timeout_seconds = seconds(timeout_seconds)
        self._is_closed = False
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
        notification, SegmentError at all ranks if one's node has no memory, ExchangeTimeout with
        the missing ranks.
        """
        self._check_open()
        size = whole("create_segment", "size_bytes", size_bytes, (0, INT64[1]))
        words = whole("create_segment", "notifications", notifications, (1, INT64[1]))
        number, room = len(self._segments), self._ranks.room()
        call = f"create_segment of segment {number}"
        own = json.dumps([size, words, room.node, room.alone_bytes, room.shared_bytes])
        asked = [json.loads(told) for told in self._meet(call, self._timeout_seconds, own)]
        extents = [Extent(*each[:2]) for each in asked]
        _check_room(number, extents, [Room(*each[2:]) for each in asked])
        self._go_on(call)
        memory = self._ranks.allocate(extents)
        self._meet(f"{call}, last step", self._timeout_seconds)  # all memory is zeroed
        segment = Segment(
            number, self.rank, memory, self._queues, self._timeout_seconds, self._check_open
        )
        self._segments.append(segment)
        return segment

    def wait(self, queue: int = 0, timeout_seconds: float | None = None) -> None:
        """Return when all posts on ``queue`` are done, so that their data may be changed.

        gaspi_wait guarantees no more; here the data are also at their targets. Raises
        ExchangeTimeout with the first post that is not done, CollectiveError for a wrong queue or
        if MPI failed.
        """
        self._chosen(queue).wait(self._limit(timeout_seconds))

    def is_done(self, post: int, queue: int = 0) -> bool:
        """Tell whether the posts on ``queue`` up to number ``post`` are done.

        Raises CollectiveError for a wrong queue or a number that no post has had.
        """
        return self._chosen(queue).is_done(post)

    def group(self, members: Sequence[int]) -> Group:
        """Make a group of some ranks, of which this is one (collective among them).

        Members of several groups make them in the same order. Raises CollectiveError for ranks that
        are none, or twice there, or without this one, or where members differ, even by their order;
        ExchangeTimeout with the missing members.
        """
        self._check_open()
        chosen_ranks = tuple(whole("group", "member", rank, (0, self.size - 1)) for rank in members)
        if len(set(chosen_ranks)) < len(chosen_ranks) or self.rank not in chosen_ranks:
            raise CollectiveError(
                f"members={list(chosen_ranks)}: expected some of 0 to {self.size - 1}, each once, "
                f"and {self.rank} among them"
            )
        call = f"group({list(chosen_ranks)})"
        self._meet(call, self._timeout_seconds, among=chosen_ranks)
        self._go_on(call, among=chosen_ranks)
        made = Group(
            self._ranks.group(chosen_ranks), chosen_ranks, self._timeout_seconds, self._check_open
        )
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
        self._check_open()
        whole("passive_send", "rank", rank, (0, self.size - 1))
        if rank == self.rank:
            raise CollectiveError(f"passive_send: rank={rank}: expected another one than this rank")
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
        self._check_open()
        return self._ranks.receive(
            as_bytes(out, is_written=True), self._limit(timeout_seconds), check
        )

    def barrier(self, timeout_seconds: float | None = None, what: str = "barrier") -> None:
        """Wait for all ranks (collective); ExchangeTimeout names those that do not come.

        ``what`` is its name in errors; it is the same at all ranks, else CollectiveError.
        """
        self._check_open()
        self._meet(what, self._limit(timeout_seconds))

    def close(self) -> None:
        """Wait for all ranks, then end the queues and free the segments (collective).

        Raises what `wait` and `barrier` do; the threads of this rank end in any case. Harmless when
        it is closed already.
        """
        if self._is_closed:
            return
        try:
            for queue in self._queues:
                queue.wait(self._timeout_seconds)
            self._meet("close", self._timeout_seconds)
            self._go_on("close")
        except KnltrainError:
            self.abandon()
            raise
        self._is_closed = True
        for queue in self._queues:
            queue.close(self._timeout_seconds)
        while self._groups:
            self._groups.pop().close()
        while self._segments:
            self._segments.pop().free()
        self._ranks.close()

    def abandon(self) -> None:
        """End the threads of this rank without the others, after a failure (not collective).

        The address space is closed then, but for its memory.
        """
        self._is_closed = True
        for queue in self._queues:
            queue.close(0)
        self._ranks.abandon()

    def _meet(
        self,
        call: str,
        limit_seconds: float,
        about: str = "",
        among: Sequence[int] | None = None,
    ) -> list[str]:
        ranks = range(self.size) if among is None else among
        return meet(self._ranks, {rank: rank for rank in ranks}, limit_seconds, call, about)

    def _go_on(self, call: str, among: Sequence[int] | None = None) -> None:
        """Meet again before MPI is called without a timeout.

        Who comes late finds what the others have told, even if they have given up.
        """
        self._meet(f"{call}, second step", self._timeout_seconds, among=among)

    def _check_open(self) -> None:
        if self._is_closed:
            raise CollectiveError(
                f"the address space of rank {self.rank} is closed: expected no call any more; make "
                "a new AddressSpace"
            )

    def _chosen(self, queue: int) -> Queue:
        self._check_open()
        return chosen(self._queues, queue, "AddressSpace")

    def _limit(self, timeout_seconds: float | None) -> float:
        return self._timeout_seconds if timeout_seconds is None else seconds(timeout_seconds)


def _check_room(number: int, extents: list[Extent], rooms: list[Room]) -> None:
    """Raise SegmentError, the same at all ranks, unless each node has memory for its ranks' parts.

    MPI allocates without asking for room; the kernel kills who touches more than there is.
    """
    for node in dict.fromkeys(room.node for room in rooms):
        ranks = [rank for rank, room in enumerate(rooms) if room.node == node]
        needed = sum(extents[rank].size_bytes + 16 * extents[rank].words for rank in ranks)
        several = len(ranks) > 1
        free = min(
            rooms[rank].shared_bytes if several else rooms[rank].alone_bytes for rank in ranks
        )
        if needed > free:
            raise SegmentError(
                f"segment {number} takes {format_bytes(needed)} at {node}, by rank"
                f"{'s' if several else ''} {', '.join(map(str, ranks))}, and {format_bytes(free)} "
                f"are free: make it smaller, free memory{', or enlarge /dev/shm' * several}"
            )
