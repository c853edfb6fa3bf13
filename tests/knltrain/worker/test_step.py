"""The mean gradient of several batches is there before anyone is told of it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from knltrain.backends.backend import nobody_waits
from knltrain.checkpoint.contents import WorkerState
from knltrain.data.order import ShardedBatches
from knltrain.errors import NonFiniteLoss, RunAborted
from knltrain.input.batch_feed import BatchFeed, FilledHere
from knltrain.optimizers.adamw import AdamW
from knltrain.worker.observer import Observer
from knltrain.worker.step import GradientSum, weighing
from vectorized_ops.parameter_groups import Clipping
from vectorized_ops.reference.adamw import AdamWUpdate


def test_parts_are_the_mean_of_all_batches_when_they_are_ready() -> None:
    sums = GradientSum(6, batches=4)
    last, seen = np.empty(6, np.float32), list[tuple[int, list[float]]]()

    def ready(offset: int) -> None:
        seen.append((offset, last.tolist()))

    for _ in range(2):  # a second step does not remember the first
        sums.begin()
        for value in (1, 2, 3):
            sums.add(np.full(6, value, np.float32))
        last[:] = 6
        seen.clear()
        complete = sums.completing(last, ready)
        complete(6)
        complete(4)
        last[:4] = 10  # a backend writes what it has not called ready
        complete(4)
        complete(0)
        complete(0)
    assert seen == [
        (6, [6] * 6),
        (4, [6] * 4 + [3] * 2),
        (4, [10] * 4 + [3] * 2),
        (0, [4] * 4 + [3] * 2),
        (0, [4] * 4 + [3] * 2),
    ]
    assert_array_equal(last, [4, 4, 4, 4, 3, 3])


def test_parts_are_weighed_once_and_before_anyone_is_told() -> None:
    gradient, seen = np.full(4, 2, np.float32), list[tuple[int, list[float]]]()
    weigh = weighing(gradient, 0.5, lambda offset: seen.append((offset, gradient.tolist())))
    for offset in (4, 3, 3, 0, 0):
        weigh(offset)
    assert seen == [
        (4, [2, 2, 2, 2]),
        (3, [2, 2, 2, 1]),
        (3, [2, 2, 2, 1]),
        (0, [1, 1, 1, 1]),
        (0, [1, 1, 1, 1]),
    ]


def test_exchanges_happen_in_the_steps_that_are_due(make_worker, monkeypatch, tiny_network, easgd):
    exchanges = []
    worker = make_worker(easgd(period=3), steps=8)

    def exchange(rule, part):
        exchanges.append(worker.step)

    monkeypatch.setattr(worker.team, "exchange", exchange)
    worker.run()
    assert exchanges[1:] == [0, 3, 6]  # the first is the rehearsal's


def test_only_a_strategy_that_hears_of_parts_is_told_of_them(
    make_worker, softmax_backend, monkeypatch, easgd
):
    """A backend that nobody waits for computes a gradient in one piece."""
    told, gradient = [], softmax_backend.loss_and_gradient

    def loss_and_gradient(batch, parameters, out, ready=nobody_waits):
        told.append(ready)
        return gradient(batch, parameters, out, ready)

    monkeypatch.setattr(softmax_backend, "loss_and_gradient", loss_and_gradient)
    worker = make_worker(easgd(), steps=2)
    worker.run()
    assert set(told) == {nobody_waits}
    monkeypatch.setattr(type(worker.strategy), "hears_of_parts", True)
    told.clear()
    worker = make_worker(easgd(), steps=2)
    worker.run()
    assert worker.strategy.gradient_done_from in told


def test_rehearsal_leaves_no_trace(make_worker, initial, easgd):
    worker = make_worker(easgd(), steps=0)
    worker.run()
    np.testing.assert_array_equal(worker.parameters, initial)
    np.testing.assert_array_equal(worker.model, initial)
    np.testing.assert_array_equal(worker.optimizer.state["velocity"], 0)
    assert worker.clocks.train_seconds == 0


def test_rehearsal_leaves_no_trace_in_an_optimizer_whose_moments_it_moves(
    make_worker, tiny_network, easgd
):
    optimizer = AdamW(tiny_network.parameter_groups, 0.9, 0.999, 1e-8, 0.0, Clipping(), AdamWUpdate)
    make_worker(easgd(), steps=0, optimizer=optimizer).run()
    assert set(optimizer.state) == {"first_moment", "second_moment", "steps"}
    for name, values in optimizer.state.items():
        assert not values.any(), name


def test_rehearsal_is_over_before_the_clocks_run(make_worker, softmax_backend, monkeypatch, easgd):
    """Kernels compile at their first call, which must not count as training."""
    readings = []
    worker = make_worker(easgd(), steps=2)
    compute = softmax_backend.loss_and_gradient

    def measured(*arguments):
        readings.append(worker.clocks.gradient._entered != 0.0)
        return compute(*arguments)

    monkeypatch.setattr(softmax_backend, "loss_and_gradient", measured)
    worker.run()
    assert readings == [False, True, True]


def test_not_finite_loss_names_step_and_layer(make_worker, tiny_images, softmax_backend, easgd):
    compute = softmax_backend.loss_and_gradient
    calls = Counter()

    def loss_and_gradient(*arguments):
        calls["all"] += 1
        # The rehearsal is call 1, step 0 is call 2.
        return float("nan") if calls["all"] == 5 else compute(*arguments)

    softmax_backend.loss_and_gradient = loss_and_gradient
    worker = make_worker(easgd(), steps=9)
    with pytest.raises(NonFiniteLoss, match="step 3: layer 'out'") as raised:
        worker.run()
    assert (raised.value.step, raised.value.layer) == (3, "out")


def test_not_finite_local_never_reaches_the_center(
    make_worker, tiny_images, softmax_backend, easgd
):
    worker = make_worker(easgd(), steps=9)

    class Spoils(Observer):
        def step_done(self, worker, step, loss, learning_rate):
            if step == 2:
                worker.parameters[0] = np.nan

    worker.observers.append(Spoils())
    with pytest.raises(NonFiniteLoss):
        worker.run()
    assert np.isfinite(worker.model).all()


def test_abort_is_noticed_in_the_next_step_without_any_exchange(
    make_worker, monkeypatch, no_exchange, recorder
):
    worker = make_worker(no_exchange(), steps=100, observers=[recorder])

    def check():
        if worker.step == 3:
            raise RunAborted("stopped")

    monkeypatch.setattr(worker.team, "check", check)
    with pytest.raises(RunAborted):
        worker.run()
    assert recorder.moments[-1][:2] == ("step", 3)


def test_a_step_of_several_batches_is_that_of_one_with_all_their_images(
    make_worker, recorder, no_exchange
):
    found = []
    for batch, iter_size in ((24, 1), (12, 2), (8, 3)):
        worker = make_worker(no_exchange(), observers=[recorder], batch=batch, iter_size=iter_size)
        worker.run()
        losses = [moment[2] for moment in recorder.moments if moment[0] == "step"]
        assert worker.images_done == 5 * 24
        found.append((losses, worker.parameters.copy()))
        recorder.moments.clear()
    for losses, parameters in found[1:]:
        np.testing.assert_allclose(losses, found[0][0], rtol=1e-5)
        np.testing.assert_allclose(parameters, found[0][1], rtol=1e-4, atol=1e-6)


def test_a_loss_that_is_not_finite_in_any_batch_of_a_step_ends_the_run(
    make_worker, softmax_backend, easgd
):
    compute, calls = softmax_backend.loss_and_gradient, Counter()

    def loss_and_gradient(*arguments):
        calls["all"] += 1
        # The rehearsal is call 1, step 1 has calls 4 and 5.
        return float("inf") if calls["all"] == 4 else compute(*arguments)

    softmax_backend.loss_and_gradient = loss_and_gradient
    with pytest.raises(NonFiniteLoss, match="step 1: layer 'out'"):
        make_worker(easgd(), steps=9, iter_size=2).run()


class RecordingFeed(BatchFeed):
    """The batches that a worker would fill itself, and what is done with them."""

    def __init__(self, batches):
        self.calls = []
        self._filled = FilledHere(batches, (1, 1, 3))

    def begin(self, step):
        self.calls.append(("begin", step))

    def take(self, step, number=0):
        self.calls.append(("take", step, number))
        return self._filled.take(step, number)

    def give_back(self):
        self.calls.append("give back")

    def close(self):
        self.calls.append("close")


def test_batches_are_taken_in_order_and_given_back_when_their_gradient_is_there(
    make_worker, tiny_images, easgd, initial
):
    feed = RecordingFeed(ShardedBatches(tiny_images, 12, 0, 1, 1, iter_size=2))
    start = WorkerState(3, initial, initial, {"velocity": np.zeros_like(initial)}, {})
    with make_worker(easgd(), steps=5, iter_size=2, feed=feed, start=start) as worker:
        worker.run()
    assert feed.calls == [
        ("begin", 3),
        ("take", 3, 0),  # the rehearsal, whose batch is that of the first step
        *(each for step in (3, 4) for n in (0, 1) for each in (("take", step, n), "give back")),
        "close",
    ]


def test_a_run_at_its_end_rehearses_its_last_step(make_worker, tiny_images, easgd, initial):
    """A pool makes no batches beyond that."""
    feed = RecordingFeed(ShardedBatches(tiny_images, 12, 0, 1, 1))
    start = WorkerState(5, initial, initial, {"velocity": np.zeros_like(initial)}, {})
    with make_worker(easgd(), steps=5, feed=feed, start=start) as worker:
        worker.run()
    assert feed.calls == [("begin", 4), ("take", 4, 0), "close"]
