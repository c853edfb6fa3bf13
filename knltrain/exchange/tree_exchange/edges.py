"""The layout of a rank's GASPI segment: weights, ring buffers, and the notifications' counters."""

from __future__ import annotations

from typing import final

from knltrain.exchange.tree_exchange.schedule import Schedule
from knltrain.exchange.tree_exchange.trees import Branches, k_ary, reduction_place

_FLOAT_BYTES = 4

WEIGHTS_CAME = 0
"""Counts the chunks of weights that the parent has written."""

ROOM = 1
"""Counts the chunks of gradients that the parent has taken out of its ring buffer: the credits."""

_FIRST_OF_CHILDREN = 2


@final
class Edges:
    """The edges of ``rank`` in both trees, and the layout of its segment.

    A segment has the weights, and after them a ring buffer of ``slots`` chunks for each child in
    the reduction. After the two notifications above there is one for each child of the reduction,
    which counts chunks of gradients, then one for each child of the broadcast, which counts
    released turns.
    """

    def __init__(
        self, schedule: Schedule, slots: int, branches: Branches, rank: int, ranks: int
    ) -> None:
        self.schedule, self.slots, self.rank = schedule, slots, rank
        self.reduction = reduction_place(rank, ranks, branches.reduction)
        self.broadcast = k_ary(rank, ranks, branches.broadcast)
        self._branches, self._ranks = branches, ranks
        rings = len(self.reduction.children) * slots * schedule.chunk_floats
        self.size_bytes = _FLOAT_BYTES * (schedule.size + rings)
        self.notifications = (
            _FIRST_OF_CHILDREN + len(self.reduction.children) + len(self.broadcast.children)
        )

    def of(self, rank: int) -> Edges:
        """Return those of another rank."""
        return Edges(self.schedule, self.slots, self._branches, rank, self._ranks)

    def gradients_came(self, child: int) -> int:
        """Return the notification that counts the chunks written by a child of the reduction."""
        return _FIRST_OF_CHILDREN + self.reduction.children.index(child)

    def released(self, child: int) -> int:
        """Return the notification that counts the turns released by a child of the broadcast."""
        place = self.broadcast.children.index(child)
        return _FIRST_OF_CHILDREN + len(self.reduction.children) + place

    def slot(self, child: int, chunk: int) -> int:
        """Return the offset in floats of a chunk of a child's gradients in the segment."""
        ring = self.reduction.children.index(child)
        place = ring * self.slots + chunk % self.slots
        return self.schedule.size + place * self.schedule.chunk_floats

    def slot_bytes(self, child: int, chunk: int) -> int:
        """Return the same in bytes."""
        return _FLOAT_BYTES * self.slot(child, chunk)

    def weight_bytes(self, chunk: slice) -> int:
        """Return the offset in bytes of a part of the weights."""
        return _FLOAT_BYTES * int(chunk.start)
