"""Parts of a gradient that go away, and come back as weights."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, TypeAlias, final

import numpy as np
import numpy.typing as npt

Times: TypeAlias = npt.NDArray[np.floating[Any]]


@final
class Arrivals:
    """Matches when the `parts` of each step were handed over with when they came back.

    Both happen in one order, but the last ones of a step come back while the next step begins. All
    times are seconds of one clock.
    """

    def __init__(self, parts: int) -> None:
        self._parts, self._came = parts, np.zeros(0)
        self._steps = deque[tuple[Times, float]]()

    def add(self, given: Times, computed: float, came: Times) -> None:
        """Note when the parts of a step were given and all was computed, and what has come since.

        A step with other numbers of parts counts for nothing.
        """
        if len(given) == self._parts:
            self._steps.append((given, computed))
        self._came = np.append(self._came, came)

    def clear(self) -> None:
        """Forget all: something was missed."""
        self._steps.clear()
        self._came = np.zeros(0)

    def take(self) -> Iterator[npt.NDArray[np.float64]]:
        """Yield for each step whose parts have come their seconds (3, parts).

        These are the exchange itself, behind the part before it; from when it was given; and what
        was waited for it after all was computed and the part before had come.
        """
        while self._steps:
            given, computed = self._steps[0]
            self._came = self._came[self._came > given[0]]  # what came before is older
            following = self._steps[1][0][0] if len(self._steps) > 1 else np.inf
            if np.count_nonzero(self._came < following) < self._parts:
                if following == np.inf:
                    return
                self._steps.popleft()  # one was missed: all come before the next step
                continue
            came, self._came = np.split(self._came, [self._parts])
            self._steps.popleft()
            before = np.append(-np.inf, came[:-1])
            yield np.stack(
                [
                    came - np.maximum(given, before),
                    came - given,
                    np.maximum(0.0, came - np.maximum(computed, before)),
                ]
            )
