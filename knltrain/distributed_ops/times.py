"""The times that a layer records, by direction."""

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

    `issued_seconds` is how long sums over all ranks were pending: from the start of a gradient's
    first sum to the end of its last, on this rank and others. `exposed_seconds` is how long the
    program waited for them.
    """

    calls: int = 0
    compute_seconds: float = 0.0
    issued_seconds: float = 0.0
    exposed_seconds: float = 0.0

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Count a call, and the time of the block as that of its kernels."""
        begin = time.perf_counter()
        yield
        self.compute_seconds += time.perf_counter() - begin
        self.calls += 1

    def clear(self) -> None:
        """Reset, for example after the first steps, which compile."""
        self.calls = 0
        self.compute_seconds = self.issued_seconds = self.exposed_seconds = 0.0
