"""One rank of the trees: its GASPI segment, and its writes to neighbours."""

from __future__ import annotations

from collections import deque
from typing import final

import numpy as np

from knltrain.communication.gaspi import AddressSpace
from knltrain.exchange.tree_exchange.counts import NotificationCounts
from knltrain.exchange.tree_exchange.edges import Edges
from knltrain.vectors import FloatArray


@final
class Member:
    """The rank of ``space`` whose edges are given; makes the segment (collective)."""

    def __init__(self, space: AddressSpace, edges: Edges) -> None:
        self.edges, self.schedule = edges, edges.schedule
        self.space = space
        self.segment = space.create_segment(edges.size_bytes, edges.notifications)
        self.counts = NotificationCounts(self.segment, edges.notifications)
        self.floats: FloatArray = self.segment.memory.view(np.float32)

    @property
    def weights(self) -> FloatArray:
        """The weights in the segment, (n,)."""
        return self.floats[: self.schedule.size]

    def slot(self, child: int, chunk: int, size: int) -> FloatArray:
        """Return the ``size`` values in the slot that a child has for a chunk."""
        begin = self.edges.slot(child, chunk)
        return self.floats[begin : begin + size]

    def lane(self, queue: int) -> Lane:
        """Return a lane that writes chunks on a queue."""
        return Lane(self, queue)


@final
class Lane:
    """Chunks that are written one after another on a queue, and counters of them.

    ``sent`` counts the posted chunks; ``settled`` counts those whose values may be changed again,
    as of the last `settle`.
    """

    def __init__(self, member: Member, queue: int) -> None:
        self._member, self._queue = member, queue
        self._posts: deque[int] = deque()
        self.sent = self.settled = 0

    def settle(self) -> bool:
        """Update ``settled``; tell whether it has grown."""
        before = self.settled
        while self._posts and self._member.space.is_done(self._posts[0], self._queue):
            self._posts.popleft()
            self.settled += 1
        return self.settled > before

    def send(self, values: FloatArray, rank: int, offset_bytes: int, notification: int) -> None:
        """Write the next chunk to ``rank``, and notify it of the new number of chunks."""
        post = self._member.segment.write_notify(
            values, rank, offset_bytes, notification, self.sent + 1, self._queue
        )
        self._posts.append(post)
        self.sent += 1
