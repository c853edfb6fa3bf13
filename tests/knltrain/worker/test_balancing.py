"""Shares of a batch that are recorded, fitted anew, or replayed."""

from __future__ import annotations

import time

import numpy as np
import pytest

from knltrain.balance.record import SharesFrom, read_shares
from knltrain.balance.shares import Cost
from knltrain.exchange.rules.downpour import Downpour
from knltrain.exchange.strategies.asynchronous import AsynchronousStrategy
from knltrain.exchange.strategies.method import Method
from knltrain.worker import loop, termination
from knltrain.worker.balancing import FittingObserver, ReplayingObserver
from knltrain.worker.observer import Observer
from vectorized_ops.reference import downpour

EVEN = (Cost(0.0, 1.0), Cost(0.0, 1.0))


class Spends(Observer):
    """Lets the clock say that a step takes a worker so many seconds for each of its images."""

    def __init__(self, image_seconds):
        self._image_seconds = image_seconds

    def step_done(self, worker, step, loss, learning_rate):
        worker.clocks.gradient.seconds = worker.clocks.batch.seconds = 0.0
        spent = self._image_seconds(worker.team.rank, step) * worker.batches.images_per_worker
        self.total = getattr(self, "total", 0.0) + spent
        worker.clocks.gradient.seconds = self.total


@pytest.fixture
def recorded(in_threads, make_worker, initial, synchronous_sgd):
    """recorded(observers of, steps): the parameters at the end of two workers' run."""

    def run(observers, steps, start=None):
        def train(transport):
            worker = make_worker(
                synchronous_sgd(2),
                transport=transport,
                observers=observers(),
                steps=steps,
                start=start,
            )
            worker.run()
            return worker.parameters.copy()

        return in_threads(initial.size, 2, train)

    return run


def test_a_worker_that_becomes_slower_gets_less(tmp_path, recorded):
    """Rank 1 is three times slower from step 5 on; looked at after every four steps."""

    def observers():
        slower = Spends(lambda rank, step: 3.0 if rank == 1 and step >= 5 else 1.0)
        return [slower, FittingObserver(tmp_path, (6, 6), EVEN, 1, 4)]

    recorded(observers, 20)
    found = read_shares(tmp_path / "shares.csv", 12, 2)
    assert found[0] == SharesFrom(0, (6, 6))
    assert found[1] == SharesFrom(8, (9, 3))
    assert len(found) == 2


def test_shares_are_never_looked_at_again_unless_asked_for(tmp_path, recorded):
    def observers():
        slower = Spends(lambda rank, _step: 1.0 + rank)
        return [slower, FittingObserver(tmp_path, (6, 6), EVEN, 1, 0)]

    recorded(observers, 9)
    assert read_shares(tmp_path / "shares.csv", 12, 2) == (SharesFrom(0, (6, 6)),)


def test_a_replayed_run_ends_with_the_same_bits(tmp_path, recorded):
    (tmp_path / "again").mkdir()

    def fitted():
        slower = Spends(lambda rank, step: 2.0 if rank == 0 and step > 3 else 1.0)
        return [slower, FittingObserver(tmp_path, (6, 6), EVEN, 1, 3)]

    first = recorded(fitted, 12)
    rows = read_shares(tmp_path / "shares.csv", 12, 2)
    assert len(rows) > 1
    second = recorded(lambda: [ReplayingObserver(tmp_path / "again", rows)], 12)
    np.testing.assert_array_equal(first, second)
    assert read_shares(tmp_path / "again/shares.csv", 12, 2) == rows


def test_a_run_that_goes_on_takes_the_shares_of_its_step(tmp_path, recorded, initial):
    from knltrain.checkpoint.contents import WorkerState

    rows = (SharesFrom(0, (6, 6)), SharesFrom(3, (8, 4)), SharesFrom(6, (2, 10)))
    start = WorkerState(4, initial, initial, {}, {})
    recorded(lambda: [ReplayingObserver(tmp_path, rows)], 9, start)
    assert [each.step for each in read_shares(tmp_path / "shares.csv", 12, 2)] == [4, 6]


def test_a_run_that_goes_on_writes_what_can_be_replayed(tmp_path, recorded, initial):
    """It had fitted after step 8, but its checkpoint is of step 5."""
    from knltrain.checkpoint.contents import WorkerState

    def observers():
        return [FittingObserver(tmp_path, (6, 6), EVEN, 1, 0)]

    recorded(observers, 3)
    with (tmp_path / "shares.csv").open("a") as file:
        file.write("8,9,3,0.5,0.5\n")
    for step in (5, 5):
        recorded(observers, 9, WorkerState(step, initial, initial, {}, {}))
        found = read_shares(tmp_path / "shares.csv", 12, 2)
        assert found == (SharesFrom(0, (6, 6)), SharesFrom(5, (6, 6)))


@pytest.mark.parametrize("rule", ["each", "master", "fastest", "average"])
def test_workers_that_are_steps_apart_change_their_shares_together(
    tmp_path, in_threads, make_worker, initial, rule, monkeypatch
):
    for module in (loop, termination):
        monkeypatch.setattr(module, "MEETING_SECONDS", 20.0)

    class Lags(Observer):
        def step_done(self, worker, step, loss, learning_rate):
            time.sleep(0.02 * worker.team.rank)

    rows = (SharesFrom(0, (6, 6)), SharesFrom(5, (9, 3)), SharesFrom(9, (4, 8)))
    method = Method("it", Downpour(downpour), AsynchronousStrategy, 1, "first_come", "step")

    def train(transport):
        observers = [Lags(), ReplayingObserver(tmp_path, rows)]
        worker = make_worker(
            method, transport=transport, observers=observers, steps=14, termination=rule
        )
        worker.run()
        return worker.batches.shares

    assert in_threads(initial.size, 2, train) == [(4, 8)] * 2
    found = read_shares(tmp_path / "shares.csv", 12, 2)
    assert [each.images for each in found] == [each.images for each in rows]


def test_a_backend_prepares_for_a_larger_share_outside_of_the_clocks(
    tmp_path, recorded, monkeypatch, softmax_backend
):
    rehearsed = []

    def rehearse(batch, parameters, gradient):
        rehearsed.append(len(batch.labels))

    monkeypatch.setattr(softmax_backend, "rehearse", rehearse)
    slower = lambda rank, _step: 1.0 + 2 * rank  # noqa: E731
    recorded(lambda: [Spends(slower), FittingObserver(tmp_path, (6, 6), EVEN, 1, 4)], 6)
    assert sorted(rehearsed) == [3, 6, 6, 9]


def test_a_file_that_cannot_be_written_is_told(tmp_path, make_worker, easgd):
    told = []

    class Hears(Observer):
        def unwritten(self, worker, what, lacks):
            told.append((what, lacks))

    (tmp_path / "shares.csv").mkdir()
    observers = [Hears(), FittingObserver(tmp_path, (12,), EVEN[:1], 1, 0)]
    make_worker(easgd(), observers=observers).run()
    ((what, lacks),) = told
    assert what == "shares.csv"
    assert lacks.startswith("it lacks rows (")  # a folder is in its place
