"""All-reduces by one-sided writes, as in GaspiCxx: along a ring, and by recursive doubling.

What arrives lies in slots of a GASPI segment, one for each step, each announced by a notification
of its own, whose value is the number of the call. No slot is written before its last content was
used. By a ring that follows from the algorithm. Who has ended a call has got something that the
right neighbour sent after all sums of that call; and who gathers has got a part to which the right
neighbour has added in this call. Recursive doubling uses two sets of slots in turn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import final

import numpy as np

from knltrain.communication.gaspi import AddressSpace
from knltrain.errors import CollectiveError
from knltrain.vectors import FloatArray


class OneSidedSum(ABC):
    """All-reduces of vectors of up to ``size`` float32 (collective to make)."""

    slots: int

    def __init__(self, space: AddressSpace, size: int, timeout_seconds: float) -> None:
        self.size = size
        self._space, self._timeout_seconds = space, timeout_seconds
        self._rank, self._ranks, self._call = space.rank, space.size, 0
        self._each = self._slot_floats(size)
        notifications = max(1, self.slots)
        self._segment = space.create_segment(4 * self.slots * self._each, notifications)
        self._memory = self._segment.memory.view(np.float32)

    @abstractmethod
    def _slot_floats(self, size: int) -> int:
        """Return the largest number of values of a message."""

    def all_reduce(self, values: FloatArray) -> None:
        """Replace contiguous ``values`` (n,) by their sum over all ranks (collective).

        The same bits everywhere. Raises CollectiveError for more than ``size``, and where ranks
        have not made the same calls; ExchangeTimeout.
        """
        if values.size > self.size:
            raise CollectiveError(f"all_reduce of {values.size} values: expected up to {self.size}")
        self._call += 1
        self._sum(values)

    @abstractmethod
    def _sum(self, values: FloatArray) -> None:
        """Replace ``values`` by their sum."""

    def _send(self, values: FloatArray, rank: int, slot: int) -> None:
        """Post a message to a slot of another rank; values may change after `_sent`."""
        self._segment.write_notify(values, rank, 4 * slot * self._each, slot, self._call)

    def _sent(self) -> None:
        self._space.wait(timeout_seconds=self._timeout_seconds)

    def _received(self, slot: int, size: int) -> FloatArray:
        """Wait for what comes to a slot."""
        self._segment.notify_waitsome(slot, 1, timeout_seconds=self._timeout_seconds)
        if (call := self._segment.notify_reset(slot)) != self._call:
            raise CollectiveError(
                f"all_reduce number {self._call} got what was sent in number {call}: expected all "
                "ranks to make the same calls"
            )
        begin = slot * self._each
        found: FloatArray = self._memory[begin : begin + size]
        return found


@final
class RingSum(OneSidedSum):
    """A reduce-scatter and an all-gather along a ring: P - 1 steps each, of a P-th of the vector.

    A rank sends 2 (P - 1) / P of a vector, the least that there is, in 2 (P - 1) messages.
    """

    def __init__(self, space: AddressSpace, size: int, timeout_seconds: float) -> None:
        self.slots = 2 * (space.size - 1)
        super().__init__(space, size, timeout_seconds)

    def _slot_floats(self, size: int) -> int:
        return -(-size // self._ranks)

    def _sum(self, values: FloatArray) -> None:
        """Replace ``values`` (n,) by their sum; each part is added up in the order of the ring."""
        parts, steps = np.array_split(values, self._ranks), self._ranks - 1
        right = (self._rank + 1) % self._ranks
        for step in range(steps):
            given = parts[(self._rank - step) % self._ranks]
            own = parts[(self._rank - step - 1) % self._ranks]
            self._send(given, right, step)
            np.add(self._received(step, own.size), own, out=own)
        self._sent()  # the same parts are overwritten now
        for step in range(steps):
            given = parts[(self._rank + 1 - step) % self._ranks]
            own = parts[(self._rank - step) % self._ranks]
            self._send(given, right, steps + step)
            np.copyto(own, self._received(steps + step, own.size))
        self._sent()


@final
class DoublingSum(OneSidedSum):
    """Recursive doubling: partners exchange whole vectors, at twice the distance in each step.

    log2 P steps. Where P is no power of two, the ranks beyond one give their vector to a partner
    first, and get the sum from it: two steps more.
    """

    def __init__(self, space: AddressSpace, size: int, timeout_seconds: float) -> None:
        self._steps = space.size.bit_length() - 1
        self.slots = doubling_slots(space.size)
        self._set, self._slots_of_set = 0, self.slots // 2
        super().__init__(space, size, timeout_seconds)

    def _slot_floats(self, size: int) -> int:
        return size

    def _sum(self, values: FloatArray) -> None:
        """Replace ``values`` (n,) by their sum; partners add the same two vectors."""
        slot, self._set = self._set * self._slots_of_set, 1 - self._set
        power, last = 1 << self._steps, slot + self._steps
        if self._rank >= power:
            self._send(values, self._rank - power, last)
            self._sent()
            np.copyto(values, self._received(last, values.size))
            return
        beyond = self._rank + power
        if beyond < self._ranks:
            np.add(values, self._received(last, values.size), out=values)
        for step in range(self._steps):
            self._send(values, self._rank ^ (1 << step), slot + step)
            found = self._received(slot + step, values.size)
            self._sent()
            np.add(values, found, out=values)
        if beyond < self._ranks:
            self._send(values, beyond, last)
            self._sent()


def doubling_slots(ranks: int) -> int:
    """Return how many slots of a whole vector `DoublingSum` has: two sets, one for each step."""
    steps = ranks.bit_length() - 1
    return 2 * (steps + (ranks > 1 << steps))
