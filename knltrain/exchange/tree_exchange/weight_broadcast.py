"""Broadcast of weights down the k-ary tree by one-sided writes, versions and acknowledgements."""

from __future__ import annotations

from typing import final

from knltrain.exchange.tree_exchange.edges import WEIGHTS_CAME
from knltrain.exchange.tree_exchange.member import Lane, Member

QUEUE = 1


@final
class WeightBroadcast:
    """A rank's part in the broadcast of weights; each version overwrites the one before.

    A child releases version v − 1 of a layer when its backward pass through the layer is done, and
    it has sent that version on. Only then does its parent write version v to it (CaffeGPI,
    versioned weights with acknowledgements). So no barrier is needed, and weights that are still
    read are not overwritten.
    """

    def __init__(self, member: Member) -> None:
        self._member, self._schedule = member, member.schedule
        self._rank = member.edges.rank
        self._parent = member.edges.broadcast.parent
        self._children = member.edges.broadcast.children
        self._released_by = [member.edges.released(child) for child in self._children]
        if self._parent is not None:
            self._release_word = member.edges.of(self._parent).released(self._rank)
        self._lanes = [member.lane(QUEUE) for _ in self._children]
        self.finished = 0
        """Turns whose backward pass is done at this rank."""
        self.released = 0
        """Turns whose weights may be overwritten at this rank."""
        self.produced = 0
        """Chunks that are ready at the root."""

    @property
    def came(self) -> int:
        """The number of chunks that have arrived at this rank."""
        return self.produced if self._parent is None else self._member.counts[WEIGHTS_CAME]

    @property
    def forwarded(self) -> int:
        """The number of chunks that this rank has sent to all its children."""
        return min([lane.settled for lane in self._lanes], default=self.came)

    def step(self) -> bool:
        """Send a chunk to each child that may get one, and release turns that are done."""
        settled = [lane.settle() for lane in self._lanes]
        handed = [self._hand_on(place, lane) for place, lane in enumerate(self._lanes)]
        return self._release() or any(settled) or any(handed)

    def awaited(self) -> str | None:
        """Describe which rank (a child or the parent) the next chunk waits for, and why."""
        for place, child in enumerate(self._children):
            if self._lanes[place].sent < self.came and not self._may_write(place):
                turn = self._schedule.chunk(self._lanes[place].sent).turn - self._schedule.layers
                return (
                    f"rank {child} has not released the weights of {self._named(turn)} (edge "
                    f"{self._rank} to {child})"
                )
        if self._parent is None:
            return None
        turn = self._schedule.chunk(self.came).turn
        return (
            f"rank {self._parent} has not sent the weights of {self._named(turn)} (edge "
            f"{self._parent} to {self._rank})"
        )

    def _hand_on(self, place: int, lane: Lane) -> bool:
        if lane.sent >= self.came or not self._may_write(place):
            return False
        part = self._schedule.chunk(lane.sent).part
        offset_bytes = self._member.edges.weight_bytes(part)
        values = self._member.weights[part]
        lane.send(values, self._children[place], offset_bytes, WEIGHTS_CAME)
        return True

    def _may_write(self, place: int) -> bool:
        turn = self._schedule.chunk(self._lanes[place].sent).turn
        released = self._member.counts[self._released_by[place]]
        return turn - self._schedule.layers < released

    def _release(self) -> bool:
        before = self.released
        while self.released < self.finished and self._is_out(self.released):
            self.released += 1
        if self.released == before:
            return False
        if self._parent is not None:
            self._member.segment.notify(self._parent, self._release_word, self.released, QUEUE)
        return True

    def _is_out(self, turn: int) -> bool:
        return self.forwarded >= self._schedule.chunks_until(turn + 1)

    def _named(self, turn: int) -> str:
        return f"layer {self._schedule.layer(turn)!r}, version {self._schedule.iteration(turn)}"
