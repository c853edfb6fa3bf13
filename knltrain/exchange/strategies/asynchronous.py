"""Exchanges of one worker with the center, whatever the others do."""

from __future__ import annotations

from typing import final

import numpy as np

from knltrain.exchange.strategies.background import Background
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.strategy import ThroughTransport
from knltrain.exchange.transports.visited_center import Order, VisitedCenter
from knltrain.vectors import FloatArray, aligned_zeros


class AsynchronousStrategy(ThroughTransport[VisitedCenter]):
    """Exchanges with the center when its own steps say so."""

    def __init__(self, method: Method, transport: VisitedCenter, order: Order) -> None:
        super().__init__(method, transport)
        self._order: Order = order
        self._contribution: FloatArray = aligned_zeros(transport.local.size)

    def begin(self) -> None:
        """Let the rule remember the center."""
        self.method.rule.begin(self.transport.center, self._contribution)

    def step_begins(self, step: int) -> None:
        """Wait for this worker's turn, where it is to compute alone, too."""
        if self.method.computes_in_turn and self.method.due(step):
            self.transport.await_turn()

    def exchange(self, step: int) -> None:
        """Exchange with the center."""
        self.method.rule.prepare(step)
        self.transport.visit(self.method.rule, self._contribution, self._order)

    def state(self) -> dict[str, FloatArray]:
        """What the rule remembers, and at rank 0 what belongs to the center."""
        found = {"contribution": self._contribution} if self.method.rule.remembers else {}
        return {**found, **super().state()}

    def close(self) -> None:
        """Let go of all vectors."""
        self._contribution = np.zeros(0, np.float32)
        super().close()


@final
class OverlappedPushStrategy(AsynchronousStrategy):
    """Contributes against the center as it is, and computes on while the center absorbs that.

    ShmCaffe's SEASGD: a worker reads the center (T1), never overlapped, since an older one would
    hurt; moves its local and writes the increment (T2, T.A1), all three in one pass over memory;
    and wakes its update thread (T3), which has the increment accumulated (T.A2 to T.A4) while the
    worker computes its next gradient (T4). The worker waits for it before the next T1, where the
    paper waits before T2: no later, and what it reads then has all that it has contributed itself.
    """

    def __init__(self, method: Method, transport: VisitedCenter, order: Order) -> None:
        super().__init__(method, transport, order)
        self._update_thread = Background("knltrain-update", transport.clocks.beside)

    def exchange(self, step: int) -> None:
        """Read the center, contribute, and let the update thread push."""
        rule, transport = self.method.rule, self.transport
        with transport.clocks.waiting:
            self._update_thread.wait()
        rule.prepare(step)
        transport.read_center()
        rule.contribute(transport.local, transport.center, self._contribution)
        self._update_thread.begin(lambda: transport.push(rule, self._contribution, self._order))

    def settle(self) -> None:
        """Wait for the update thread; raise what it could not do."""
        self._update_thread.wait()

    def close(self) -> None:
        """End the update thread, and let go of all vectors."""
        self._update_thread.close()
        super().close()
