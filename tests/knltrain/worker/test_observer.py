"""Observers, and the result that they are given."""

from __future__ import annotations

import numpy as np
import pytest

from knltrain.checkpoint.contents import WorkerState
from knltrain.errors import NonFiniteLoss
from knltrain.evaluation import Evaluation
from knltrain.worker.observer import Observer


def test_observer_that_leaves_every_moment_out_changes_nothing(make_worker, easgd):
    watched, alone = make_worker(easgd(), observers=[Observer()]), make_worker(easgd())
    watched.run()
    alone.run()
    np.testing.assert_array_equal(watched.parameters, alone.parameters)
    watched.close()


def test_every_observer_hears_which_model_has_no_finite_loss(make_worker, easgd, recorder):
    class Spoils(Observer):
        def step_done(self, worker, step, loss, learning_rate):
            if step == 2:
                worker.parameters[0] = np.nan

    recorders = [recorder, type(recorder)()]
    with pytest.raises(NonFiniteLoss):
        make_worker(easgd(), observers=[Spoils(), *recorders]).run()
    assert [each.moments[-1] for each in recorders] == [("diverged", 2)] * 2


def test_moments_come_in_order(make_worker, easgd, recorder):
    with make_worker(easgd(), steps=2, observers=[recorder]) as worker:
        worker.run()
    kinds = [moment[0] for moment in recorder.moments]
    assert kinds == ["started", "step", "step", "finished", "closed"]
    steps = [moment for moment in recorder.moments if moment[0] == "step"]
    assert [(step, rate) for _, step, _, rate in steps] == [(1, 0.5), (2, 0.25)]


def test_every_observer_hears_of_an_evaluation(make_worker, easgd, recorder):
    recorders = [recorder, type(recorder)()]
    worker = make_worker(easgd(), observers=recorders)
    worker.step = 3
    worker.evaluated(Evaluation(0.5, 1.0, 10))
    assert [recorder.moments for recorder in recorders] == [[("evaluated", 3, 0.5)]] * 2
    assert worker.evaluation.accuracy == 0.5


def test_result_holds_the_means_over_the_workers(in_threads, make_worker, initial, no_exchange):
    def train(transport):
        seconds = {"training": 2.0 + transport.rank, "exchange": 1.0, "evaluation": 50.0}
        start = WorkerState(3, initial, initial, {}, seconds)
        return make_worker(no_exchange(2), transport=transport, steps=3, start=start).run()

    first, second = in_threads(initial.size, 2, train)
    assert first == second
    assert first.steps == 3
    assert first.train_seconds == 2.5
    assert first.exchange_share == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert first.images_per_second == pytest.approx(3 * 12 / 2.5)
    assert first.cost_seconds["moving"] == 1.0
    assert first.cost_seconds["evaluation"] == 50.0
    assert first.communication_share == pytest.approx(1 / 2.5)
