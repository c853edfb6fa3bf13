"""Exchanges through a shared segment: `python -m knltrain.bench.exchange.segment_member RANK`.

A handle is the descriptor of a segment, which this process inherits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import final

import numpy as np

from knltrain import __version__
from knltrain.bench.exchange.contestants import IN_TURN, ONE_VISIT, TREE
from knltrain.bench.exchange.member import Answers, HeldVectors, Member, check_values, serve_apart
from knltrain.exchange.rules.averaging import ModelAveraging
from knltrain.exchange.rules.easgd import EASGD
from knltrain.exchange.rules.rule import SynchronousRule
from knltrain.exchange.transports.node_shared import NodeShared
from knltrain.exchange.transports.segment import Segment
from knltrain.exchange.transports.transport import Order
from vectorized_ops.numba import elastic

MOVING_RATE = 0.25
"""With this, an exchange of small whole numbers has no rounding."""


@final
class _Locals(HeldVectors):
    """This worker's locals, one in each segment."""

    def __init__(self, transports: Sequence[NodeShared]) -> None:
        workers = transports[0].workers
        self._transports = transports
        self._elastic = EASGD(MOVING_RATE, elastic)
        average = ModelAveraging(workers, elastic.synchronous_model_average)
        # Elastic averaging needs no contribution: any vector of the right size will do.
        self._unused = [np.broadcast_to(np.float32(0), each.local.shape) for each in transports]
        self.operations = {
            "sync_easgd": self._all_at_once(self._elastic),
            "average": self._all_at_once(average),
            "visit": partial(self._visit, "first_come"),
            TREE: self._at_master,
            IN_TURN: partial(self._visit, "round_robin"),
            ONE_VISIT: self._visit_alone,
        }
        pulled = (1 - MOVING_RATE) * (transports[0].rank + 1)
        self._expected = {
            "sync_easgd": pulled,
            TREE: pulled,
            "average": (workers + 1) / 2,
        }
        self._restart()

    def check(self) -> None:
        """Compare with local_i = (1 - a)(i + 1) and with the mean; visits keep all sums."""
        for name, expected in self._expected.items():
            self._give_numbers()
            self.operations[name]()
            check_values(name, [each.local for each in self._transports], expected)
            self._restart()
        workers = self._transports[0].workers
        for name in ("visit", IN_TURN, ONE_VISIT):
            self._give_numbers()
            self.operations[name]()
            self.meet()
            for each in self._transports:
                total = each.all_sum(np.array([each.local[0]], np.float64)) + each.center[0]
                check_values(f"sum after {name}", [np.round(total, 3)], workers * (workers + 1) / 2)
            self._restart()

    def meet(self) -> None:
        """Wait at the first segment's barrier."""
        self._transports[0].barrier()

    def close(self) -> None:
        """Detach from the segments."""
        for each in self._transports:
            each.close()

    def _all_at_once(self, rule: SynchronousRule) -> Callable[[], None]:
        if len(self._transports) == 1:
            exchange = self._transports[0].exchange
            return lambda: exchange(rule)

        def run() -> None:
            for each in self._transports:
                each.exchange(rule)

        return run

    def _visit(self, order: Order) -> None:
        for each, unused in zip(self._transports, self._unused, strict=True):
            each.visit(self._elastic, unused, order)

    def _visit_alone(self) -> None:
        """Visit as rank 0 while no other does."""
        if self._transports[0].rank == 0:
            self._visit("first_come")

    def _at_master(self) -> None:
        for each in self._transports:
            each.exchange_at_master(self._elastic)

    def _give_numbers(self) -> None:
        for each in self._transports:
            each.local.fill(each.rank + 1)
            each.barrier()

    def _restart(self) -> None:
        for each in self._transports:
            zeros = np.zeros_like(each.local) if each.rank == 0 else None
            each.start_from(zeros)


@final
class SegmentMember(Member):
    """A worker of the given segments."""

    version = f"knltrain {__version__}"

    def __init__(self, rank: int) -> None:
        self._rank = rank

    def hold(self, sizes: Sequence[int], handles: Sequence[int]) -> HeldVectors:  # noqa: ARG002
        """Claim this worker's rank in each segment, and close its descriptor."""
        return _Locals([NodeShared(Segment.attach(fd), self._rank) for fd in handles])


if __name__ == "__main__":
    member = SegmentMember(int(sys.argv[1]))
    serve_apart(member.version, Answers(member))
