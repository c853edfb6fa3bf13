"""Reduction of gradients along a tree, chunk by chunk, by a ring buffer on each edge."""

from __future__ import annotations

from typing import final

import numpy as np

from knltrain.exchange.tree_exchange.edges import ROOM
from knltrain.exchange.tree_exchange.member import Member
from knltrain.vectors import FloatArray

QUEUE = 0


@final
class GradientReduction:
    """A rank's part in the sum of all ``gradient`` vectors (n,); its own becomes its subtree's sum.

    A child writes a chunk into a free slot of its ring buffer at the parent. The parent adds it
    from there to its own gradient, and frees the slot (CaffeGPI, ring buffers with credit
    notifications). Children are added in ascending order, whichever arrives first, so sums have the
    same bits in every run.
    """

    def __init__(self, member: Member, gradient: FloatArray) -> None:
        self._member, self._gradient = member, gradient
        self._schedule, self._rank = member.schedule, member.edges.rank
        self._parent = member.edges.reduction.parent
        self._children = member.edges.reduction.children
        self._came = [member.edges.gradients_came(child) for child in self._children]
        self._above = None if self._parent is None else member.edges.of(self._parent)
        self._lane = member.lane(QUEUE)
        self._chunk = 0
        self._added = 0
        self.ready = 0
        """Turns whose gradient this rank has computed."""

    @property
    def summed(self) -> int:
        """The number of chunks that are completely added up at this rank, and sent on."""
        return self._chunk

    @property
    def settled(self) -> int:
        """The number of chunks whose gradient may be overwritten: they have been sent."""
        return self._chunk if self._above is None else self._lane.settled

    def step(self) -> bool:
        """Advance the next chunk if possible; tell whether it was."""
        settled = self._lane.settle()
        if self._chunk >= self._schedule.chunks_until(self.ready):
            return settled
        part = self._schedule.chunk(self._chunk).part
        added = self._added
        while self._added < len(self._children) and self._has_come():
            self._add(self._gradient[part])
        if self._added < len(self._children) or not self._has_room():
            return settled or self._added > added
        if self._above is not None:
            self._send(self._gradient[part])
        self._chunk += 1
        self._added = 0
        return True

    def awaited(self) -> str | None:
        """Describe which rank the next chunk waits for, and why; None if it waits for none."""
        if self._chunk >= self._schedule.chunks_until(self.ready):
            return None
        turn = self._schedule.chunk(self._chunk).turn
        what = f"layer {self._schedule.layer(turn)!r}, iteration {self._schedule.iteration(turn)}"
        if self._added < len(self._children):
            child = self._children[self._added]
            return (
                f"rank {child} has not sent its gradient of {what} (edge {child} to {self._rank})"
            )
        return (
            f"rank {self._parent} has not made room in its ring for the gradient of {what} (edge "
            f"{self._rank} to {self._parent})"
        )

    def _has_come(self) -> bool:
        return self._member.counts[self._came[self._added]] > self._chunk

    def _has_room(self) -> bool:
        taken = self._chunk - self._member.counts[ROOM]
        return self._above is None or taken < self._member.edges.slots

    def _add(self, sums: FloatArray) -> None:
        child = self._children[self._added]
        np.add(sums, self._member.slot(child, self._chunk, sums.size), out=sums)
        self._member.segment.notify(child, ROOM, self._chunk + 1, QUEUE)
        self._added += 1

    def _send(self, sums: FloatArray) -> None:
        assert self._parent is not None and self._above is not None
        self._lane.send(
            sums,
            self._parent,
            self._above.slot_bytes(self._rank, self._chunk),
            self._above.gradients_came(self._rank),
        )
