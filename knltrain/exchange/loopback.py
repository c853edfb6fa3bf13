"""The transport of a run with one worker: the center is next door, nobody is waited for."""

from __future__ import annotations

import mmap
from typing import final

import numpy as np
import numpy.typing as npt

from knltrain.exchange.rule import ExchangeRule, FloatArray
from knltrain.exchange.transport import Transport, check_start_values, check_sum_values


@final
class Loopback(Transport):
    """One worker, its local and its center, page-aligned float32 vectors of ``size`` elements."""

    def __init__(self, size: int) -> None:
        self.rank = 0
        self.workers = 1
        self.local = _page_aligned(size)
        self.center = _page_aligned(size)

    def exchange(self, rule: ExchangeRule) -> None:
        """Apply ``rule`` to the one local and the center."""
        rule.synchronise(self.local[np.newaxis], self.center)

    def start_from(self, values: FloatArray | None = None) -> None:
        """Give the center and the local ``values``."""
        np.copyto(self.center, check_start_values(values, self.center.size))
        np.copyto(self.local, self.center)

    def all_sum(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return a copy: the sum over one worker."""
        check_sum_values(values)
        return np.array(values)

    def barrier(self, timeout_seconds: float | None = None) -> None:
        """Return at once."""

    def check(self) -> None:
        """Return at once: nobody else could abort the run."""

    def close(self) -> None:
        """Let go of both vectors."""
        self.local = self.center = np.zeros(0, np.float32)


def _page_aligned(size: int) -> FloatArray:
    if size < 1:
        raise ValueError(f"size = {size}: expected at least 1 element")
    # An anonymous map is zero, starts at a page as a shared segment does, and dies with its views.
    return np.frombuffer(mmap.mmap(-1, size * 4), np.float32)
