"""What of its time in exchanges a worker knows to have waited."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from knltrain import clocks as clocks_module
from knltrain.exchange.rules.averaging import ModelAveraging
from knltrain.exchange.rules.downpour import Downpour
from knltrain.exchange.transports.loopback import Loopback
from knltrain.exchange.transports.node_shared import NodeShared
from vectorized_ops.reference import downpour
from vectorized_ops.reference.elastic import synchronous_average

LATE_SECONDS = 0.3


def _meets(transport: NodeShared) -> None:
    transport.exchange(ModelAveraging(2, synchronous_average))


def _comes_in_turn(transport: NodeShared) -> None:
    """Rank 1 has its turn after rank 0."""
    contribution = np.zeros(transport.local.size, np.float32)
    transport.visit(Downpour(downpour), contribution, "round_robin")


def _comes_to_meet(transport: NodeShared) -> None:
    transport.barrier()


@pytest.mark.parametrize(
    ("act", "late", "waits"),
    [(_meets, 1, True), (_comes_in_turn, 0, True), (_comes_to_meet, 1, False)],
)
def test_who_is_in_time_waits_for_who_is_late(
    in_threads: Callable[..., list[Any]],
    act: Callable[[NodeShared], None],
    late: int,
    waits: bool,
) -> None:
    def work(transport: NodeShared) -> float:
        transport.start_from(np.zeros(8, np.float32))
        if transport.rank == late:
            time.sleep(LATE_SECONDS)
        act(transport)
        return transport.clocks.waiting.seconds

    waited = in_threads(8, 2, work)
    assert (waited[1 - late] >= 0.5 * LATE_SECONDS) == waits
    assert waited[late] < 0.5 * LATE_SECONDS


def test_a_push_by_a_thread_beside_is_none_of_the_worker_s_time(
    in_threads: Callable[..., list[Any]],
) -> None:
    def work(transport: NodeShared) -> float:
        transport.start_from(np.zeros(8, np.float32))
        if transport.rank == 0:
            time.sleep(LATE_SECONDS)
        transport.push(Downpour(downpour), np.zeros(8, np.float32), "round_robin")
        return transport.clocks.waiting.seconds

    assert in_threads(8, 2, work) == [0.0, 0.0]


def test_master_s_update_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(clocks_module.time, "perf_counter", lambda: now[0])

    class Slow(ModelAveraging):
        def contribute(self, *vectors: Any) -> None:
            now[0] += 1.0

        def absorb(self, *vectors: Any) -> None:
            now[0] += 10.0

        def follow(self, *vectors: Any) -> None:
            now[0] += 100.0

    transport = Loopback(8, spares=True)
    transport.exchange_at_master(Slow(1, synchronous_average))
    assert transport.clocks.center.seconds == 10.0
    assert transport.clocks.waiting.seconds == 0.0
