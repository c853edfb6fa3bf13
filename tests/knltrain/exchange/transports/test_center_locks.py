"""Workers that come to the center alone, in real processes."""

from __future__ import annotations

import socket
from typing import Any

import numpy as np
import pytest

from knltrain.exchange.transports.layout import Layout

WORKERS = 3
VISITS = 50
SIZES = {"one piece": 5, "several pieces": 300_001}


@pytest.fixture(scope="module", params=SIZES)
def found(start_once: Any, request: pytest.FixtureRequest) -> list[dict[str, np.ndarray]]:
    sizes = (SIZES[request.param],)
    results: list[dict[str, np.ndarray]] = start_once(
        "visits", WORKERS, sizes, center_vectors=2
    ).results()
    return results


def test_sizes_have_so_many_pieces() -> None:
    assert Layout(SIZES["one piece"], WORKERS).pieces == 1
    assert Layout(SIZES["several pieces"], WORKERS).pieces == 4


@pytest.mark.parametrize("order", ["first_come", "round_robin"])
def test_what_each_worker_adds_is_in_the_center_exactly(
    found: list[dict[str, np.ndarray]], order: str
) -> None:
    for worker in found:
        assert np.all(worker[f"{order}_center"] == VISITS * (1 + 2 + 3))
        assert np.all(worker[f"{order}_kept"] == VISITS * WORKERS)


def test_round_robin_lets_ranks_come_in_order(found: list[dict[str, np.ndarray]]) -> None:
    before = np.array([0, 1, 1 + 2])
    for rank, worker in enumerate(found):
        expected = before[rank] + 6 * np.arange(VISITS)
        assert worker["round_robin_seen"].tolist() == expected.tolist()


def test_first_come_does_not_wait_for_the_order(found: list[dict[str, np.ndarray]]) -> None:
    """Those that sleep are overtaken: the sequence of what is seen is not that of the ranks."""
    in_order = [
        worker["first_come_seen"].tolist() == worker["round_robin_seen"].tolist()
        for worker in found
    ]
    assert not all(in_order)


def test_equal_vectors_stay_as_they_are_without_locks(found: list[dict[str, np.ndarray]]) -> None:
    for worker in found:
        assert np.all(worker["still"] == 3)


def test_death_under_a_lock_is_reported_by_those_who_want_it(start: Any) -> None:
    peers = start("late_holder", 2, center_vectors=2)
    assert peers.hear(1) == "inside"
    peers.processes[1].kill()
    kind, text = peers.error(0)
    assert kind == "PeerLost"
    assert text.startswith("worker 1 is gone")


@pytest.mark.slow
def test_holder_of_a_lock_is_named_when_time_is_up(start: Any) -> None:
    peers = start("late_holder", 2, argument="1.5", center_vectors=2)
    assert peers.hear(1) == "inside"
    kind, text = peers.error(0)
    assert kind == "ExchangeTimeout"
    where = f"process {peers.processes[1].pid} on host {socket.gethostname()}"
    assert f"worker 1 ({where}, running)" in text
