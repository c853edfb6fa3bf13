"""The parts of a thread's work, one after the other, as `knltrain.clocks.Marks` tell of them.

The end of a part is the begin of the next: one clock for each, and no time between two parts is
lost. A mark takes two stores and a clock, a fraction of a microsecond.
"""

from __future__ import annotations

import time
from typing import NamedTuple, final

import numpy as np
import numpy.typing as npt

from knltrain.clocks import Marks

_TRIED_MARKS = 10_000


class Parts(NamedTuple):
    """Parts in order, (n,) int64 each: numbers, and begins and ends in nanoseconds.

    The clock is `time.perf_counter_ns`. `dropped` older ones were overwritten.
    """

    numbers: npt.NDArray[np.int64]
    begins: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    dropped: int


@final
class Timeline(Marks):
    """Keeps the newest `capacity` marks of one thread, in a ring; marking allocates nothing."""

    def __init__(self, capacity: int) -> None:
        size = 1 << max(capacity - 1, 1).bit_length()
        self._times = memoryview(bytearray(8 * size)).cast("q")
        self._numbers = memoryview(bytearray(8 * size)).cast("q")
        self._last_place = size - 1
        self._count = self._taken = 0

    def mark(self, number: int) -> None:
        """See `Marks`."""
        place = self._count & self._last_place
        self._times[place] = time.perf_counter_ns()
        self._numbers[place] = number
        self._count += 1

    @property
    def count(self) -> int:
        """All marks so far, also those of what does not count."""
        return self._count

    def take(self) -> Parts:
        """The parts since the last call."""
        count = self._count  # another thread may go on marking
        begin = max(self._taken - 1, 0)  # the end of the last part taken is the begin of the next
        first = max(begin, count - self._last_place - 1)
        dropped, self._taken = first - begin, count
        places = np.arange(first, count) & self._last_place
        times = np.frombuffer(self._times, np.int64)[places]
        numbers = np.frombuffer(self._numbers, np.int64)[places][1:]
        counted = numbers >= 0
        return Parts(numbers[counted], times[:-1][counted], times[1:][counted], dropped)


def mark_seconds() -> float:
    """What a mark costs here and now."""
    timeline = Timeline(_TRIED_MARKS)
    begin = time.perf_counter()
    for number in range(_TRIED_MARKS):
        timeline.mark(number)
    return (time.perf_counter() - begin) / _TRIED_MARKS
