"""The plan's memory: lifetimes of arrays, their offsets in one arena, and the tensors made of them.

Every array of a step has a first and a last moment of use. Arrays whose lifetimes do not overlap
may share memory, so the arena is about as large as what is alive at the busiest moment.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from knltrain.network.layers import Shape
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


@final
class Tensor:
    """The output of a stage, or the images; `gradient` is None where it is not needed.

    - `rectified` values come out of a ReLU: where they are 0 the gradient must become 0. If
      `masked`, the last stage that adds to the gradient applies that mask; otherwise the stage that
      made the values does. A part of a concatenation to whose gradient no stage adds by itself is
      masked with the whole.
    - `fixed` values must not be overwritten: the stage that made them reads them again.
    - `parent` is the concatenation whose memory a tensor is a part of.
    """

    def __init__(self, name: str, shape: Shape, values: Place, gradient: Place | None) -> None:
        self.name, self.shape = name, shape
        self.values, self.gradient = values, gradient
        self.rectified = self.fixed = False
        self.parent: Tensor | None = None
        self._masked: bool | None = None

    @property
    def masked(self) -> bool:
        """Whether the gradient arrives already masked: with zeros where values were cut off."""
        if self._masked is None:
            return self.parent is not None and self.parent.masked
        return self._masked

    @property
    def wholes(self) -> Iterator[Tensor]:
        """The tensor itself, and the concatenations that it is a part of."""
        tensor: Tensor | None = self
        while tensor is not None:
            yield tensor
            tensor = tensor.parent

    def mark_masked(self, masked: bool = True) -> None:
        """Note whether the last stage that adds to the gradient applies the mask."""
        self._masked = masked


@final
class Flow:
    """One stage's share in the gradient of its input `tensor`; `wire` decides how it is written.

    `can_mask` tells whether the operation applies a mask, `shares` whether the share is the
    gradient of the output as it is, whose memory it may have.
    """

    def __init__(self, tensor: Tensor, can_mask: bool = True, shares: bool = False) -> None:
        self.tensor, self.can_mask, self.shares = tensor, can_mask, shares
        self.add = self.mask = False

    @property
    def is_needed(self) -> bool:
        """Whether the gradient of the tensor is needed."""
        return self.tensor.gradient is not None

    @property
    def out(self) -> Any:
        """The array of the gradient."""
        assert self.tensor.gradient is not None
        return self.tensor.gradient.array

    @property
    def manner(self) -> dict[str, Any]:
        """The arguments `add` and `mask` of the operation."""
        return {"add": self.add, "mask": self.tensor.values.array if self.mask else None}
