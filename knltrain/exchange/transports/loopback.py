"""The transport of a run with one worker: the center is in its own memory, and nothing waits."""

from __future__ import annotations

from typing import final

import numpy as np
import numpy.typing as npt

from affinity import allocate
from knltrain.clocks import Clock, ExchangeClocks
from knltrain.exchange.rules.rule import ExchangeRule, SynchronousRule
from knltrain.exchange.transports.team import check_start_values, check_sum_values
from knltrain.exchange.transports.transport import WHOLE, CollectiveTransport, Order, VisitedCenter
from knltrain.vectors import FloatArray


@final
class Loopback(CollectiveTransport, VisitedCenter):
    """One worker, its local and its center, page-aligned float32 vectors of ``size`` elements.

    ``center_vectors`` is that of the rule; with ``spares`` there is a spare.
    """

    def __init__(self, size: int, center_vectors: int = 1, spares: bool = False) -> None:
        if size < 1:
            raise ValueError(f"size = {size}: expected at least 1 element")
        self.rank = 0
        self.workers = 1
        self.clocks = ExchangeClocks()
        self.local = _page_aligned(size)
        self.spare = _page_aligned(size * spares)
        self.center = _page_aligned(size)
        self.kept = _page_aligned((center_vectors - 1) * size).reshape(-1, size)

    def exchange(self, rule: SynchronousRule, part: slice = WHOLE) -> None:
        """Apply ``rule`` to a part of the one local and the center."""
        for each, piece in rule.on(part):
            local = self.local[np.newaxis, piece]
            each.synchronise(local, self.center[piece], self.kept[:, piece])

    def exchange_beside(
        self, rule: SynchronousRule, part: slice = WHOLE, *, of_locals: bool = True
    ) -> None:
        """Apply ``rule`` to the spare instead of the local."""
        if of_locals:
            np.copyto(self.spare[part], self.local[part])
        for each, piece in rule.on(part):
            spare = self.spare[np.newaxis, piece]
            each.synchronise(spare, self.center[piece], self.kept[:, piece])

    def swap(self) -> None:
        """Swap local and spare."""
        self.local, self.spare = self.spare, self.local

    def exchange_at_master(self, rule: SynchronousRule) -> None:
        """Apply ``rule`` in its three steps to the one local and the center."""
        rule.contribute(self.local, self.center, self.spare)
        with self.clocks.center:
            rule.absorb(self.center, self.kept, self.spare)
        rule.follow(self.local, self.center, self.spare)

    def visit(self, rule: ExchangeRule, contribution: FloatArray, order: Order) -> None:  # noqa: ARG002
        """Apply ``rule`` to the one local and the center; the order does not matter."""
        for each, part in rule.on(WHOLE):
            each.visit(self.local[part], self.center[part], self.kept[:, part], contribution[part])

    def push(
        self,
        rule: ExchangeRule,
        contribution: FloatArray,
        order: Order,  # noqa: ARG002
        waiting: Clock | None = None,  # noqa: ARG002
    ) -> None:
        """Let the center absorb the contribution."""
        for each, part in rule.on(WHOLE):
            each.absorb(self.center[part], self.kept[:, part], contribution[part])

    def await_turn(self) -> None:
        """Return at once."""

    def start_from(self, values: FloatArray | None = None) -> None:
        """Set the center and the local to ``values``."""
        np.copyto(self.center, check_start_values(values, self.center.size))
        np.copyto(self.local, self.center)
        self.kept.fill(0)

    def all_sum(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return a copy: the sum over one worker."""
        check_sum_values(values)
        return np.array(values)

    def progress(self, steps: int) -> npt.NDArray[np.int64]:
        """Return this worker's own steps."""
        return np.array([steps], np.int64)

    def barrier(self, timeout_seconds: float | None = None) -> None:
        """Return at once."""

    def check(self) -> None:
        """Return at once: no other process can abort the run."""

    def close(self) -> None:
        """Release all vectors."""
        self.local = self.spare = self.center = np.zeros(0, np.float32)
        self.kept = np.zeros((0, 0), np.float32)


def _page_aligned(size: int) -> FloatArray:
    if size == 0:
        return np.zeros(0, np.float32)
    # It is zero, begins at a page as a segment does, has huge pages, and is freed with its views.
    return np.frombuffer(allocate(size * 4).buffer, np.float32)
