"""A buffer in a Soft Memory Box: one-sided reads, writes, vector operations and events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np
import numpy.typing as npt

from knltrain.communication.memory_box.interface import SharedBuffer
from knltrain.communication.memory_box.local.layout import (
    APART_WORDS,
    EVENTS,
    EVENTS_BEGIN,
    KEY,
    LOCKS,
    LOCKS_BEGIN,
    SLOT_WORDS,
    stripes,
)
from knltrain.communication.memory_box.local.stripes import (
    ACCUMULATE,
    AXPBY,
    FREED,
    SCALE,
    work_on_stripes,
)
from knltrain.communication.shared_memory import process_identity
from knltrain.communication.shared_memory.atomics import (
    PATIENT_LOOKS,
    Words,
    add,
    give_back,
    read,
    take,
    take_over,
)
from knltrain.communication.shared_memory.polling import nap_until
from knltrain.errors import ExchangeTimeout, PeerLost, SegmentError
from knltrain.vectors import FloatArray

AnyArray = npt.NDArray[Any]

_LOOKS = 300


@final
class Buffer(SharedBuffer["Buffer"]):
    """``size`` elements of ``dtype`` that every process with the ``key`` can work on.

    - `read` and `write` take no locks, as a network adapter would not: a read during a write gets
      some elements of either.
    - Vector operations take the locks of their target, stripe by stripe. So N processes that
      accumulate at once add up exactly, and two that work on one target hardly wait for each
      other. They read their source without locks.
    - The buffer must not be freed during `read`, `write` or `notify`: they might act on the next
      buffer in its place.

    All of them return when they are done. Made by `SoftMemoryBox.create_buffer` and
    `SoftMemoryBox.open`, not to be used across a fork. Once a buffer is freed, all its methods
    raise SegmentError in every process.
    """

    def __init__(
        self, key: int, values: AnyArray, slot: Words, timeout_seconds: float, free: _Free
    ) -> None:
        self.key = key
        self._values = values
        self._slot = slot
        self._locks = slot[LOCKS_BEGIN:SLOT_WORDS:APART_WORDS]
        self._events = slot[EVENTS_BEGIN:LOCKS_BEGIN:APART_WORDS]
        self._seen = [0] * EVENTS
        parts = stripes(values.size, values.itemsize)
        self._ends = np.array([part.stop for part in parts], np.int64)
        self._stripes = sum(1 << n for n, part in enumerate(parts) if part.stop > part.start)
        self._timeout_seconds = timeout_seconds
        self._free = free
        self._identity = process_identity.own_identity()
        self._first = self._identity % LOCKS

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._values.size

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the elements: float32 or int64."""
        return self._values.dtype

    def read(self, out: AnyArray, offset: int = 0) -> None:
        """Copy elements from ``offset`` on to ``out`` (k,)."""
        np.copyto(out, self._part(out, offset))

    def write(self, values: AnyArray, offset: int = 0) -> None:
        """Copy ``values`` (k,) to the elements from ``offset`` on."""
        np.copyto(self._part(values, offset), values)

    def accumulate(self, source: Buffer) -> None:
        """Add another float32 buffer of the same size to this one, equations (7) of SEASGD."""
        self._by_stripes(ACCUMULATE, source=self._operand(source))

    def axpby(self, a: float, source: Buffer, b: float) -> None:
        """Set this buffer to a times itself plus b times another of the same size, float32."""
        self._by_stripes(AXPBY, float(a), self._operand(source), float(b))

    def scale(self, a: float) -> None:
        """Multiply this float32 buffer by ``a``."""
        self._check_float()
        self._by_stripes(SCALE, float(a))

    def notify(self, event: int = 0) -> None:
        """Signal ``event`` of this buffer, 0 <= event < 8, to all who wait for it."""
        self._check_event(event)
        add(self._events, event, 1)

    def wait(self, event: int = 0, timeout_seconds: float | None = None) -> int:
        """Wait until ``event`` was signalled since the last call; return how often it was.

        The first call counts from when the buffer was made. What the notifying process wrote
        before is visible afterwards. Raises ExchangeTimeout.
        """
        self._check_event(event)
        limit = self._timeout_seconds if timeout_seconds is None else timeout_seconds
        before = self._seen[event]

        def happened() -> bool:
            return read(self._events, event) != before

        def check() -> None:
            self._check_open()

        if not (any(happened() for _ in range(_LOOKS)) or nap_until(happened, check, check, limit)):
            raise ExchangeTimeout(
                f"waited {limit:g} s in vain for event {event} of the buffer with key {self.key}: "
                "expected another process to call notify"
            )
        self._seen[event] = read(self._events, event)
        self._check_open()
        return self._seen[event] - before

    def free(self) -> None:
        """Return its memory to the box; its key is invalid afterwards.

        Waits for processes that work on it, unless they have ended.
        """
        self._check_open()
        held: list[int] = []
        try:
            for number in range(LOCKS):
                self._take_from_any(number)
                held.append(number)
            self._free(self.key)
        finally:
            for number in held:
                give_back(self._locks, number)
        self._values = self._values[:0].copy()

    def _take_from_any(self, number: int) -> None:
        """Acquire a lock, also from a process that has ended while it held it."""
        while take(self._locks, number, self._identity, PATIENT_LOOKS) != 0:
            try:
                self._wait_for(number)
            except PeerLost:
                ended = read(self._locks, number)
                alive = ended and process_identity.is_alive(ended)
                if not alive and take_over(self._locks, number, ended, self._identity) == ended:
                    return

    def _part(self, like: AnyArray, offset: int) -> AnyArray:
        self._check_open()
        if like.dtype != self.dtype or like.ndim != 1:
            raise SegmentError(
                f"got {like.dtype} of shape {like.shape}, expected {self.dtype} of shape (k,)"
            )
        if offset < 0 or offset + like.size > self.size:
            raise SegmentError(
                f"elements {offset} to {offset + like.size} are not all in a buffer of "
                f"{self.size} elements"
            )
        return self._values[offset : offset + like.size]

    def _operand(self, source: Buffer) -> FloatArray:
        source._check_open()
        fits = source.size == self.size and source.dtype == self.dtype == np.float32
        if source.key == self.key or not fits:
            self._check_float()
            raise SegmentError(
                f"got a buffer of {source.size} elements of {source.dtype} with key {source.key}, "
                f"expected another one than the target, of {self.size} elements of {self.dtype}"
            )
        found: FloatArray = source._values
        return found

    def _by_stripes(
        self, operation: int, a: float = 1.0, source: FloatArray | None = None, b: float = 1.0
    ) -> None:
        """Apply an operation of `stripes` to the whole buffer."""
        target = self._values
        source = target if source is None else source
        pending = self._stripes
        while pending:
            left = work_on_stripes(
                operation, target, a, source, b, self._ends, self._slot, self.key, self._identity,
                self._first, pending, PATIENT_LOOKS,
            )  # fmt: skip
            if left == FREED:
                self._check_open()
                continue
            if left == pending:
                numbers = (*range(self._first, LOCKS), *range(self._first))
                self._wait_for(next(number for number in numbers if left >> number & 1))
            pending = left

    def _wait_for(self, number: int) -> None:
        def free() -> bool:
            return read(self._locks, number) == 0

        def check_alive() -> None:
            holder = read(self._locks, number)
            if (
                holder
                and not process_identity.is_alive(holder)
                and read(self._locks, number) == holder
            ):
                ended = process_identity.process_id(holder)
                raise PeerLost(
                    f"process {ended} has ended while it worked on the buffer with key {self.key}: "
                    "make a new one"
                )

        if not nap_until(free, self._check_open, check_alive, self._timeout_seconds):
            holder = process_identity.process_id(read(self._locks, number))
            raise ExchangeTimeout(
                f"waited {self._timeout_seconds:g} s in vain for process {holder}, which works on "
                f"the buffer with key {self.key}"
            )

    def _check_open(self) -> None:
        if read(self._slot, KEY) != self.key:
            raise SegmentError(f"the buffer with key {self.key} was freed: open another")

    def _check_float(self) -> None:
        self._check_open()
        if self.dtype != np.float32:
            raise SegmentError(f"vector operations are for float32, this buffer is {self.dtype}")

    def _check_event(self, event: int) -> None:
        self._check_open()
        if not 0 <= event < EVENTS:
            raise SegmentError(f"event {event}: expected 0 to {EVENTS - 1}")


_Free = Callable[[int], None]
