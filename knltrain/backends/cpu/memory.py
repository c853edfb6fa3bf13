"""The plan's memory: lifetimes of arrays, and their offsets in one arena.

Every array of a step has a first and a last moment of use. Arrays whose lifetimes do not overlap
may share memory, so the arena is about as large as what is alive at the busiest moment.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from vectorized_ops.layout import AnyArray

ALIGNMENT_BYTES = 64


@final
class Buffer:
    """Memory for an array, alive from its first to its last moment of use.

    `shape` is the logical one, images first; `array` is set once there is an arena.
    """

    def __init__(self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike = np.float32):
        self.name, self.shape, self.dtype = name, shape, np.dtype(dtype)
        self.first, self.last = math.inf, -math.inf
        self.array: AnyArray | None = None

    def use_at(self, moment: int) -> None:
        """Be alive at `moment`."""
        self.first, self.last = min(self.first, moment), max(self.last, moment)


@final
class Place:
    """Channels `start` to `stop` of a buffer or of another place, or all of them.

    `array` exists after `bind`, which needs the buffer's array.
    """

    def __init__(self, origin: Buffer | Place, start: int = 0, stop: int | None = None) -> None:
        self._origin, self._start = origin, start
        self._stop = origin.shape[-1] if stop is None else stop
        self.array: AnyArray = np.empty(0, self.buffer.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array in logical order."""
        return (*self._origin.shape[:-1], self._stop - self._start)

    @property
    def buffer(self) -> Buffer:
        """The buffer that it is a part of."""
        return self._found()[0]

    def part(self, start: int, stop: int) -> Place:
        """Channels `start` to `stop` of this place; they move with it."""
        return Place(self, start, stop)

    def move_into(self, other: Place) -> None:
        """Share the memory of `other` from now on, which has the same shape."""
        self._origin, self._start, self._stop = other, 0, other.shape[-1]

    def bind(self) -> None:
        """Look up `array`, now that the buffer has one."""
        buffer, start = self._found()
        assert buffer.array is not None
        stop = start + self._stop - self._start
        whole = (start, stop) == (0, buffer.shape[-1])
        self.array = buffer.array if whole else buffer.array[..., start:stop]

    def _found(self) -> tuple[Buffer, int]:
        """Return the buffer, and the place's first channel in it."""
        if isinstance(self._origin, Buffer):
            return self._origin, self._start
        buffer, start = self._origin._found()
        return buffer, start + self._start


@dataclass(frozen=True, slots=True)
class Lifetime:
    """So many bytes from moment `first` to moment `last`, both included."""

    size: int
    first: float
    last: float


def packed(lifetimes: Sequence[Lifetime]) -> tuple[list[int], int]:
    """Return the offset of each lifetime, and the size of an arena without conflicts.

    Memory of two lifetimes that overlap in time does not overlap. Largest first, each at the lowest
    offset that is free during its lifetime. For the intervals of a training step, most of which are
    nested, the size is close to the lower bound, `largest_sum`.
    """
    offsets = [0] * len(lifetimes)
    placed: list[int] = []
    for number in sorted(range(len(lifetimes)), key=lambda i: (-lifetimes[i].size, i)):
        mine = lifetimes[number]
        neighbours = sorted(
            (offsets[other], offsets[other] + lifetimes[other].size)
            for other in placed
            if lifetimes[other].first <= mine.last and mine.first <= lifetimes[other].last
        )
        offset = 0
        for begin, end in neighbours:
            if begin - offset >= mine.size:
                break
            offset = max(offset, _aligned(end))
        offsets[number] = offset
        placed.append(number)
    ends = (offset + each.size for offset, each in zip(offsets, lifetimes, strict=True))
    return offsets, max(ends, default=0)


def largest_sum(lifetimes: Iterable[Lifetime]) -> int:
    """Return the bytes alive at the busiest moment: no arena can be smaller."""
    known = list(lifetimes)
    return max(
        (sum(o.size for o in known if o.first <= each.first <= o.last) for each in known),
        default=0,
    )


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
