"""The transport between workers of several nodes: a segment on each, and a collective between."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import final

import numpy as np
import numpy.typing as npt

from knltrain.communication.internode.collective import NodeCollective
from knltrain.exchange.rules.rule import SynchronousRule
from knltrain.exchange.transports.node_shared import NodeShared
from knltrain.exchange.transports.segment import Segment
from knltrain.exchange.transports.team import check_start_values, check_sum_values
from knltrain.exchange.transports.transport import WHOLE, CollectiveTransport
from knltrain.vectors import FloatArray

_BLOCK_FLOATS = 2**15
"""The block size: local, center and contribution of a block fit a second-level cache. Smaller
blocks would have a visible overhead each."""


@final
class CrossNodeTransport(CollectiveTransport):
    """Worker ``rank`` of a node's ``segment``; the center has a replica on every node.

    1. The workers of a node add up their contributions in its segment, each worker a stripe.
    2. The first worker of each node adds up these sums over all nodes by the ``collective``.
    3. Every node moves its replica by the total. All absorb the same bits, so all replicas stay
       equal to the last bit.

    While the first worker waits for other nodes it does not notice an abort of the run; the process
    that has started it ends it then.

    The last vector that the segment keeps beside the center takes the sums. ``local`` may be a
    vector outside the segment if the node has one worker. ``nodes`` is the number of nodes,
    ``node`` the number of this one; the other arguments are those of `NodeShared`.
    """

    def __init__(
        self,
        segment: Segment,
        rank: int,
        collective: NodeCollective | None,
        node: int,
        nodes: int,
        timeout_seconds: float = 60.0,
        names: Sequence[int] | None = None,
        local: FloatArray | None = None,
    ) -> None:
        if (collective is not None) != (rank == 0):
            raise ValueError(f"rank {rank}: expected a collective at the first worker, and only it")
        self._inside = inside = NodeShared(segment, rank, timeout_seconds, names)
        self._collective = collective
        self.rank = node * inside.workers + rank
        self.workers = nodes * inside.workers
        self.clocks = inside.clocks
        self.center = segment.center
        self.kept = segment.kept[:-1]
        self._sum = segment.kept[-1]
        self._layout = segment.layout
        self._locals = segment.locals_ if local is None else local.reshape(1, -1)
        self._spares = segment.spares
        self._scratch = np.zeros(_BLOCK_FLOATS, np.float32)
        self._take_rows()

    @property
    def residual(self) -> FloatArray:
        """The residual of this node's contributions in the collective, at its first worker."""
        return super().residual if self._collective is None else self._collective.residual

    @property
    def keeps_center(self) -> bool:
        """Whether this is the first worker of its node, which keeps the node's replica."""
        return self._inside.rank == 0

    def exchange(self, rule: SynchronousRule, part: slice = WHOLE) -> None:
        """Apply ``rule`` once to a part of all locals and the center (collective)."""
        self._meet(rule, part, self._locals, self.clocks.waiting)

    def exchange_beside(
        self, rule: SynchronousRule, part: slice = WHOLE, *, of_locals: bool = True
    ) -> None:
        """Apply ``rule`` to the spares in place of the locals (collective)."""
        if of_locals:
            np.copyto(self.spare[part], self.local[part])
        self._meet(rule, part, self._spares, nullcontext())  # these clocks are another thread's

    def swap(self) -> None:
        """Swap locals and spares."""
        self._locals, self._spares = self._spares, self._locals
        self._take_rows()

    def exchange_at_master(self, rule: SynchronousRule) -> None:
        """Apply ``rule`` once; rank 0 moves the center (collective)."""
        self._contribute(rule, WHOLE, self._locals, self.clocks.waiting)
        if self._collective is not None:
            self._collective.reduce(self._sum)
            if self.rank == 0:
                with self.clocks.center:
                    rule.absorb(self.center, self.kept, self._sum)
            self._collective.broadcast(self.center)
        self._await_all(self.clocks.waiting)
        rule.follow(self.local, self.center, self._sum)

    def start_from(self, values: FloatArray | None = None) -> None:
        """Set the center and every local to the values of rank 0 (collective)."""
        if self._collective is not None:
            if self.rank == 0:
                np.copyto(self.center, check_start_values(values, self.center.size))
            self._collective.broadcast(self.center)
            self.residual[:] = 0
        self._await_all(nullcontext())
        stripe = self._stripe_of(WHOLE)
        self.kept[:, stripe] = 0
        self._sum[stripe] = 0
        np.copyto(self.local, self.center)
        if self.spare.size:
            np.copyto(self.spare, self.center)
        self._await_all(nullcontext())

    def all_sum(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Add up a few float64 numbers: on each node, over the nodes, and back (collective)."""
        check_sum_values(values)
        of_node = self._inside.all_sum(values)
        of_all = np.zeros_like(values)
        if self._collective is not None:
            for each in self._collective.gather(of_node):
                of_all += each
        return self._inside.all_sum(of_all)

    def link_rate(self, size: int) -> float | None:
        """Bytes per second at which this node sends about ``size`` bytes, see `Team.link_rate`."""
        if self._collective is None:
            return None
        others = self._collective.nodes - 1
        values = np.zeros(-(-size // (others * 8)))
        begin = time.perf_counter()
        self._collective.gather(values)
        return others * values.nbytes / (time.perf_counter() - begin)

    def barrier(self, timeout_seconds: float | None = None) -> None:
        """Wait until every worker is here (collective), with a longer time limit if given."""
        self._inside.barrier(timeout_seconds)
        if self._collective is not None:
            self._collective.gather(np.zeros(1), timeout_seconds)
        self._inside.barrier(timeout_seconds)

    def progress(self, steps: int) -> npt.NDArray[np.int64]:
        """Publish that this worker has done ``steps`` steps; return those of all, (P,) int64.

        Collective: these workers take every step together.
        """
        found = np.zeros(self.workers, np.float64)
        found[self.rank] = steps
        return self.all_sum(found).astype(np.int64)

    def check(self) -> None:
        """Raise RunAborted or PeerLost if the run is being aborted."""
        self._inside.check()

    def close(self) -> None:
        """Leave the other nodes, and release the segment."""
        self.local = self.spare = self.center = self._sum = np.zeros(0, np.float32)
        self._locals = self._spares = self.kept = np.zeros((0, 0), np.float32)
        collective, self._collective = self._collective, None  # a team is closed more than once
        if collective is not None:
            collective.close()
        self._inside.close()

    def _meet(
        self,
        rule: SynchronousRule,
        part: slice,
        rows: FloatArray,
        waiting: AbstractContextManager[object],
    ) -> None:
        self._contribute(rule, part, rows, waiting)
        if self._collective is not None:
            self._collective.all_reduce(self._sum[part], part.indices(self._sum.size)[0])
            if rule.takes_back and self.residual.size:
                self._take_back(rows, part)
        self._await_all(waiting)
        for each, piece in self._pieces(rule, part):
            each.absorb(self.center[piece], self.kept[:, piece], self._sum[piece])
            for row in rows:
                each.follow(row[piece], self.center[piece], self._sum[piece])
        self._await_all(waiting)

    def _take_back(self, rows: FloatArray, part: slice) -> None:
        """Add the residual to the locals of this node, in equal shares."""
        share = np.float32(len(rows))
        for block in _blocks(part.indices(self._sum.size)):
            rest = self.residual[block]
            np.divide(rest, share, out=rest)
            for row in rows:
                np.add(row[block], rest, out=row[block])
            rest[:] = 0

    def _contribute(
        self,
        rule: SynchronousRule,
        part: slice,
        rows: FloatArray,
        waiting: AbstractContextManager[object],
    ) -> None:
        """Compute the sum of this node's contributions, in rank order."""
        self._await_all(waiting)
        for each, piece in self._pieces(rule, part):
            total = self._sum[piece]
            each.contribute(rows[0, piece], self.center[piece], total)
            for row in rows[1:]:
                contribution = self._scratch[: total.size]
                each.contribute(row[piece], self.center[piece], contribution)
                np.add(total, contribution, out=total)
        self._await_all(waiting)

    def _pieces(
        self, rule: SynchronousRule, part: slice
    ) -> Iterator[tuple[SynchronousRule, slice]]:
        """Cut this worker's stripe into pieces of one rule each that fit its cache."""
        stripe = self._stripe_of(part)
        for block in _blocks((stripe.start, stripe.stop)):
            yield from rule.on(block)

    def _stripe_of(self, part: slice) -> slice:
        return self._layout.stripe(self._inside.rank, part)

    def _await_all(self, waiting: AbstractContextManager[object]) -> None:
        with waiting:
            self._inside.barrier()

    def _take_rows(self) -> None:
        rank = self._inside.rank
        self.local = self._locals[rank]
        self.spare = self._spares[rank] if len(self._spares) else self.local[:0]


def _blocks(bounds: Sequence[int]) -> Iterator[slice]:
    begin, end = bounds[:2]
    for at in range(begin, end, _BLOCK_FLOATS):
        yield slice(at, min(at + _BLOCK_FLOATS, end))
