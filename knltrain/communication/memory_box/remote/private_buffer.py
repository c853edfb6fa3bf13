"""A buffer in this process's own memory: ShmCaffe's private increments, ready to be sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, final

import numpy as np

from knltrain.communication.memory_box.remote.layout import EVENTS
from knltrain.communication.memory_box.remote.vector import (
    AnyArray,
    Vector,
    check_event,
    check_float,
    check_operand,
    check_part,
)
from knltrain.communication.shared_memory.atomics import add, read
from knltrain.errors import SegmentError
from vectorized_ops.numba import vectors

_BLOCK = 2**20


@final
class PrivateBuffer(Vector):
    """``size`` elements that no other process can reach; its key is 0, which is never valid.

    Only one thread at a time may work on it; events go from thread to thread.
    """

    def __init__(self, size: int, dtype: np.dtype[Any], timeout_seconds: float) -> None:
        super().__init__(0, size, dtype, timeout_seconds)
        self._values: AnyArray | None = np.zeros(size, dtype)
        self._values.fill(0)  # first touch now, not in the first exchange
        self._events = np.zeros(EVENTS, np.int64)

    def read(self, out: AnyArray, offset: int = 0) -> None:
        """Copy elements from ``offset`` on to ``out`` (k,)."""
        check_part(self, out, offset)
        np.copyto(out, self._own()[offset : offset + out.size])

    def write(self, values: AnyArray, offset: int = 0) -> None:
        """Copy ``values`` (k,) to the elements from ``offset`` on."""
        check_part(self, values, offset)
        np.copyto(self._own()[offset : offset + values.size], values)

    def announce(self, value: int, place: int) -> AnyArray:
        """See `Vector`."""
        found = np.zeros(self.size, self.dtype)
        self.write(np.array([value]), place)
        self.read(found)
        return found

    def accumulate(self, source: Vector) -> None:
        """Add another buffer of the same size and dtype to this one."""
        check_operand(self, source)
        for target, lent in self._beside(source):
            np.add(target, lent, out=target)

    def axpby(self, a: float, source: Vector, b: float) -> None:
        """Set this buffer to a times itself plus b times another of the same size, float32."""
        check_float(self)
        check_operand(self, source)
        for target, lent in self._beside(source):
            vectors.axpby(target, float(a), lent, float(b))

    def scale(self, a: float) -> None:
        """Multiply this float32 buffer by ``a``."""
        check_float(self)
        vectors.scale(self._own(), float(a))

    def notify(self, event: int = 0) -> None:
        """Signal ``event``, 0 <= event < 8, to the threads of this process that wait for it."""
        check_event(event)
        self._own()
        add(self._events, event, 1)

    def free(self) -> None:
        """Free its memory."""
        self._own()
        self._values = None

    @property
    def parts(self) -> list[slice]:
        """All, in this process."""
        return [slice(0, self.size)]

    def alone(self, part: int) -> AbstractContextManager[None]:  # noqa: ARG002
        """Hold all, as does the only thread that works on it."""
        return nullcontext()

    def lend(
        self,
        begin: int,
        count: int,
        scratch: AnyArray | None = None,  # noqa: ARG002
    ) -> AnyArray:
        """Return the elements where they are."""
        return self._own()[begin : begin + count]

    def check_open(self) -> None:
        """Raise SegmentError if it was freed."""
        self._own()

    def happened(self, event: int) -> int:
        """Return how often an event was signalled."""
        self._own()
        return read(self._events, event)

    def _own(self) -> AnyArray:
        if self._values is None:
            raise SegmentError(f"the buffer with key {self.key} was freed: open another")
        return self._values

    def _beside(self, source: Vector) -> Iterator[tuple[AnyArray, AnyArray]]:
        """Yield blocks of this buffer and of another; those of the other are read in turn."""
        scratch = np.empty(min(self.size, _BLOCK), self.dtype)
        for begin in range(0, self.size, _BLOCK):
            target = self._own()[begin : begin + _BLOCK]
            yield target, source.lend(begin, target.size, scratch[: target.size])
