"""What a layer records of its time, by direction."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

FORWARD, BACKWARD_DATA = "forward", "backward_data"
BACKWARD_WEIGHTS, UPDATE = "backward_weights", "update"
DIRECTIONS = (FORWARD, BACKWARD_DATA, BACKWARD_WEIGHTS, UPDATE)


@dataclass(slots=True)
class Times:
    """Sums over `calls` of one direction.

    `issued_seconds` is how long sums over all ranks were under way: from the start of a gradient's
    first one to the end of its last, whether this rank or others took that long. `exposed_seconds`
    is how long the program waited for them. The rest was hidden behind something else.
    """

    calls: int = 0
    compute_seconds: float = 0.0
    issued_seconds: float = 0.0
    exposed_seconds: float = 0.0

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Count a call, and the seconds that pass inside as those of its kernels."""
        begin = time.perf_counter()
        yield
        self.compute_seconds += time.perf_counter() - begin
        self.calls += 1

    def clear(self) -> None:
        """Begin anew, as after the first steps, which compile."""
        self.calls = 0
        self.compute_seconds = self.issued_seconds = self.exposed_seconds = 0.0
