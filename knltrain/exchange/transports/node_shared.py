"""The transport between the workers of one node: all vectors lie in one segment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
import numpy.typing as npt

from knltrain.clocks import Clock, ExchangeClocks
from knltrain.exchange.rules.rule import ExchangeRule, SynchronousRule
from knltrain.exchange.transports.barrier import Barrier
from knltrain.exchange.transports.center_locks import CenterLocks
from knltrain.exchange.transports.layout import SUMS
from knltrain.exchange.transports.peer_wait import PeerWait
from knltrain.exchange.transports.progress_board import ProgressBoard
from knltrain.exchange.transports.segment import Segment
from knltrain.exchange.transports.team import check_start_values, check_sum_values
from knltrain.exchange.transports.transport import WHOLE, CollectiveTransport, Order, VisitedCenter
from knltrain.vectors import FloatArray

_BLOCK_FLOATS = 2**16
"""The size of a block of all locals: with spares and center it fits a second-level cache."""
_LEAST_BLOCK = 2**12


@final
class NodeShared(CollectiveTransport, VisitedCenter):
    """Worker ``rank`` of a segment; each worker does the exchange of its own stripe of all vectors.

    In an exchange a worker waits until all locals are ready, applies the rule to one P-th of the
    columns, and waits until all stripes are done. Between two exchanges no worker touches the local
    of another or the center.

    Claims the rank in the segment (SegmentError, see `Segment.claim`). ``timeout_seconds`` is how
    long a peer may be late; ``names`` are the names of ranks in errors. Keeps the segment open
    until `close`.
    """

    def __init__(
        self,
        segment: Segment,
        rank: int,
        timeout_seconds: float = 60.0,
        names: Sequence[int] | None = None,
    ) -> None:
        segment.claim(rank)
        self.rank = rank
        self.workers = segment.workers
        self.clocks = ExchangeClocks()
        self.center = segment.center
        self.kept = segment.kept
        self._segment = segment
        self._locals, self._spares = segment.locals_, segment.spares
        self._peer_wait = PeerWait(segment, timeout_seconds, names)
        self._barrier = Barrier(segment, rank, self._peer_wait)
        self._center_locks = CenterLocks(segment, rank, self._peer_wait)
        self._board = ProgressBoard(segment, rank)
        self._sums = [segment.sums(r) for r in range(self.workers)]
        self._sums_turn = 0
        self._take_rows()

    def exchange(self, rule: SynchronousRule, part: slice = WHOLE) -> None:
        """Apply ``rule`` once to a part of all locals and the center (collective)."""
        stripe = self._stripe_of(part)
        self._await_all()
        for each, piece in rule.on(stripe):
            each.synchronise(self._locals[:, piece], self.center[piece], self.kept[:, piece])
        self._await_all()

    def exchange_beside(
        self, rule: SynchronousRule, part: slice = WHOLE, *, of_locals: bool = True
    ) -> None:
        """Apply ``rule`` to the spares instead of the locals (collective)."""
        stripe = self._stripe_of(part)
        step = max(_LEAST_BLOCK, _BLOCK_FLOATS // self.workers)
        self._barrier.wait()
        for begin in range(stripe.start, stripe.stop, step):
            block = slice(begin, min(begin + step, stripe.stop))
            if of_locals:
                np.copyto(self._spares[:, block], self._locals[:, block])
            for each, piece in rule.on(block):
                each.synchronise(self._spares[:, piece], self.center[piece], self.kept[:, piece])
        self._barrier.wait()

    def swap(self) -> None:
        """Swap locals and spares."""
        self._locals, self._spares = self._spares, self._locals
        self._take_rows()

    def exchange_at_master(self, rule: SynchronousRule) -> None:
        """Apply ``rule`` once; rank 0 moves the center (collective)."""
        self._await_all()
        rule.contribute(self.local, self.center, self.spare)
        distance = 1
        while distance < self.workers:
            self._await_all()
            if self.rank % (2 * distance) == 0 and self.rank + distance < self.workers:
                np.add(self.spare, self._spares[self.rank + distance], out=self.spare)
            distance *= 2
        self._await_all()
        if self.rank == 0:
            with self.clocks.center:
                rule.absorb(self.center, self.kept, self.spare)
        self._await_all()
        rule.follow(self.local, self.center, self.spare)

    def visit(self, rule: ExchangeRule, contribution: FloatArray, order: Order) -> None:
        """Apply ``rule`` to this worker's local and the center, whatever the others do."""

        def visit(piece: slice) -> None:
            for each, part in rule.on(piece):
                own, center = self.local[part], self.center[part]
                each.visit(own, center, self.kept[:, part], contribution[part])

        self._center_locks.make(visit, order, self.clocks.waiting)

    def push(
        self,
        rule: ExchangeRule,
        contribution: FloatArray,
        order: Order,
        waiting: Clock | None = None,
    ) -> None:
        """Let the center absorb what this worker contributed."""

        def absorb(piece: slice) -> None:
            for each, part in rule.on(piece):
                each.absorb(self.center[part], self.kept[:, part], contribution[part])

        self._center_locks.make(absorb, order, Clock() if waiting is None else waiting)

    def await_turn(self) -> None:
        """Wait until it is this worker's turn to visit by "round_robin"."""
        self._center_locks.await_turn(self.clocks.waiting)

    def start_from(self, values: FloatArray | None = None) -> None:
        """Set the center and every local to the values of rank 0 (collective).

        Works by stripes as an exchange does, so that afterwards all pages it needs are mapped.
        """
        if self.rank == 0:
            np.copyto(self.local, check_start_values(values, self.local.size))
        stripe = self._stripe_of(WHOLE)
        self._barrier.wait()
        np.copyto(self.center[stripe], self._locals[0, stripe])
        np.copyto(self._locals[1:, stripe], self.center[stripe])
        np.copyto(self._spares[:, stripe], self.center[stripe])
        self.kept[:, stripe] = 0
        self._barrier.wait()

    def all_sum(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Add up a few float64 numbers over all workers in rank order (collective)."""
        check_sum_values(values)
        few = (values[at : at + SUMS] for at in range(0, values.size, SUMS))
        return np.concatenate([self._sum_of(each) for each in few])

    def progress(self, steps: int) -> npt.NDArray[np.int64]:
        """Publish that this worker has done ``steps`` steps; return those of all."""
        return self._board.share(steps)

    def barrier(self, timeout_seconds: float | None = None) -> None:
        """Wait until every worker is here (collective), with a longer time limit if given."""
        self._barrier.wait(timeout_seconds)

    def check(self) -> None:
        """Raise RunAborted or PeerLost if the run is being aborted."""
        self._peer_wait.check()

    def close(self) -> None:
        """Release the segment; the last process that releases it frees the memory."""
        self.local = self.spare = self.center = np.zeros(0, np.float32)
        self._locals = self._spares = self.kept = np.zeros((0, 0), np.float32)
        self._sums = []
        self._center_locks.close()
        self._board.close()
        self._segment.close()

    def _sum_of(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        # Two sets in turn: a worker at the next sum may write while others still read this one's.
        # It cannot reach the sum after that before they have read.
        turn, self._sums_turn = self._sums_turn, 1 - self._sums_turn
        self._sums[self.rank][turn, : values.size] = values
        self._barrier.wait()
        total = np.zeros_like(values)
        for sums in self._sums:
            total += sums[turn, : values.size]
        return total

    def _await_all(self) -> None:
        with self.clocks.waiting:
            self._barrier.wait()

    def _take_rows(self) -> None:
        self.local = self._locals[self.rank]
        self.spare = self._spares[self.rank] if len(self._spares) else self.local[:0]

    def _stripe_of(self, part: slice) -> slice:
        return self._segment.layout.stripe(self.rank, part)
