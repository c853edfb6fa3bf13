"""The transport between the workers of one node: every vector in one shared segment."""

from __future__ import annotations

from typing import final

import numpy as np
import numpy.typing as npt

from knltrain.exchange.rule import ExchangeRule, FloatArray
from knltrain.exchange.segment import Segment
from knltrain.exchange.transport import Transport, check_start_values, check_sum_values
from knltrain.exchange.waiting import Barrier


@final
class NodeShared(Transport):
    """Worker ``rank`` of a segment; each worker does the exchange of its own stripe of all vectors.

    An exchange is: wait until all locals are ready, apply the rule to one P-th of the columns, wait
    until all stripes are done. Between two exchanges nobody touches another's local or the center.

    Claims the rank in the segment (SegmentError, see ``Segment.claim``); ``timeout_seconds`` is how
    long a peer may be late. Keeps the segment open until ``close``.
    """

    def __init__(self, segment: Segment, rank: int, timeout_seconds: float = 60.0) -> None:
        segment.claim(rank)
        self.rank = rank
        self.workers = segment.workers
        self.local = segment.locals_[rank]
        self.center = segment.center
        self._segment = segment
        self._barrier = Barrier(segment, rank, timeout_seconds)
        stripe = segment.layout.stripe(rank)
        self._locals_stripe = segment.locals_[:, stripe]
        self._center_stripe = segment.center[stripe]
        self._sums = [segment.sums(r) for r in range(self.workers)]
        self._sums_turn = 0

    def exchange(self, rule: ExchangeRule) -> None:
        """Apply ``rule`` once to all locals and the center (collective)."""
        self._barrier.wait()
        rule.synchronise(self._locals_stripe, self._center_stripe)
        self._barrier.wait()

    def start_from(self, values: FloatArray | None = None) -> None:
        """Give the center and every local the values of rank 0 (collective).

        Goes by stripes as an exchange does, so that afterwards all pages it needs are mapped.
        """
        if self.rank == 0:
            np.copyto(self.local, check_start_values(values, self.local.size))
        self._barrier.wait()
        np.copyto(self._center_stripe, self._locals_stripe[0])
        np.copyto(self._locals_stripe[1:], self._center_stripe)
        self._barrier.wait()

    def all_sum(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Add up a few float64 numbers over all workers in rank order (collective)."""
        check_sum_values(values)
        # Two sets in turn: who is at the next sum may write while others still read this one's,
        # and cannot get to the sum after that before they have read.
        turn, self._sums_turn = self._sums_turn, 1 - self._sums_turn
        self._sums[self.rank][turn, : values.size] = values
        self._barrier.wait()
        total = np.zeros_like(values)
        for sums in self._sums:
            total += sums[turn, : values.size]
        return total

    def barrier(self, timeout_seconds: float | None = None) -> None:
        """Wait until every worker is here (collective), with another time limit if one is given."""
        self._barrier.wait(timeout_seconds)

    def check(self) -> None:
        """Raise RunAborted or PeerLost if the run is being aborted."""
        self._barrier.check()

    def close(self) -> None:
        """Let go of the segment; the memory goes when nobody holds it any more."""
        self.local = self.center = self._center_stripe = np.zeros(0, np.float32)
        self._locals_stripe = np.zeros((0, 0), np.float32)
        self._sums = []
        self._segment.close()
