"""The base class of both kinds of buffers, and checks of their operands."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import numpy.typing as npt

from knltrain.communication.memory_box.interface import SharedBuffer
from knltrain.communication.memory_box.remote.layout import EVENTS
from knltrain.communication.shared_memory.polling import nap_until
from knltrain.errors import ExchangeTimeout, SegmentError

AnyArray = npt.NDArray[Any]


class Vector(SharedBuffer["Vector"]):
    """``size`` elements of ``dtype``, on the servers or in this process."""

    def __init__(self, key: int, size: int, dtype: np.dtype[Any], timeout_seconds: float) -> None:
        self.key = key
        self._size, self._dtype = size, dtype
        self._timeout_seconds = timeout_seconds
        self._seen = [0] * EVENTS

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._size

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the elements: float32 or int64."""
        return self._dtype

    @abstractmethod
    def announce(self, value: int, place: int) -> AnyArray:
        """Set an element of an int64 buffer, and return all elements.

        Of two processes that call this at once, at least one finds what the other sets. Does not
        check whether the buffer was freed.
        """

    @property
    @abstractmethod
    def parts(self) -> list[slice]:
        """The elements of each process that has some."""

    @abstractmethod
    def alone(self, part: int) -> AbstractContextManager[None]:
        """Hold a part, by its number, beside nobody else who holds or operates on it."""

    @abstractmethod
    def lend(self, begin: int, count: int, scratch: AnyArray | None = None) -> AnyArray:
        """Return ``count`` elements from ``begin`` on, read only; may use ``scratch`` (count,).

        Takes no locks, and does not check whether the buffer was freed.
        """

    @abstractmethod
    def check_open(self) -> None:
        """Raise SegmentError if it was freed."""

    @abstractmethod
    def happened(self, event: int) -> int:
        """Return how often an event was signalled since the buffer was made."""

    def wait(self, event: int = 0, timeout_seconds: float | None = None) -> int:
        """Wait until ``event`` was signalled since the last call; return how often it was.

        The first call counts from when the buffer was made. What the notifying process wrote
        before is visible afterwards. Raises ExchangeTimeout.
        """
        check_event(event)
        limit = self._timeout_seconds if timeout_seconds is None else timeout_seconds
        before = self._seen[event]

        def look() -> bool:
            self._seen[event] = self.happened(event)
            return self._seen[event] != before

        if not nap_until(look, lambda: None, self.check_open, limit):
            raise ExchangeTimeout(
                f"waited {limit:g} s in vain for event {event} of the buffer with key {self.key}: "
                "expected another process to call notify"
            )
        self.check_open()
        return self._seen[event] - before


def check_event(event: int) -> None:
    """Raise SegmentError for an event that does not exist."""
    if not 0 <= event < EVENTS:
        raise SegmentError(f"event {event}: expected 0 to {EVENTS - 1}")


def check_part(of: Vector, like: AnyArray, offset: int) -> None:
    """Raise SegmentError unless ``like`` (k,) fits k elements of a buffer from ``offset`` on."""
    if like.dtype != of.dtype or like.ndim != 1:
        raise SegmentError(
            f"got {like.dtype} of shape {like.shape}, expected {of.dtype} of shape (k,)"
        )
    if offset < 0 or offset + like.size > of.size:
        raise SegmentError(
            f"elements {offset} to {offset + like.size} are not all in a buffer of {of.size} "
            "elements"
        )


def check_float(of: Vector) -> None:
    """Raise SegmentError unless a buffer is one of float32."""
    if of.dtype != np.float32:
        raise SegmentError(
            f"vector operations are for float32, accumulate for int64 too: this buffer is "
            f"{of.dtype}"
        )


def check_operand(target: Vector, source: Vector) -> None:
    """Raise SegmentError unless ``source`` is another buffer of the same form, and not freed."""
    source.check_open()
    if source is target or (source.key == target.key and source.key) or not _alike(target, source):
        raise SegmentError(
            f"got a buffer of {source.size} elements of {source.dtype} with key {source.key}, "
            f"expected another one than the target, of {target.size} elements of {target.dtype}"
        )


def _alike(target: Vector, source: Vector) -> bool:
    return source.size == target.size and source.dtype == target.dtype
