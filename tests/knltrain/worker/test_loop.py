"""The loop does what the equations say, in every worker, and ends clearly."""

from __future__ import annotations

import weakref
from collections import Counter

import numpy as np
import pytest

from knltrain.checkpoint import WorkerState
from knltrain.data.dataset import Batch
from knltrain.data.order import ShardedBatches
from knltrain.errors import NonFiniteLoss, RunAborted
from knltrain.optimizers.adamw import AdamW
from knltrain.worker import Observer
from vectorized_ops.clipping import Clipping
from vectorized_ops.reference.adamw import AdamWUpdate

MOVING_RATE = np.float32(0.3)
MOMENTUM = 0.5


def own_training(backend, images, initial, workers, steps):
    """Locals and center of sync EASGD, straight from SC17 equations (1) and (2)."""
    locals_ = [initial.copy() for _ in range(workers)]
    velocities = [np.zeros_like(initial) for _ in range(workers)]
    center = initial.copy()
    for step in range(steps):
        batch = ShardedBatches(images, 12, 0, 1, seed=1)
        everything = batch_of(batch, step, 12)
        before = [local.copy() for local in locals_]
        pulls = [MOVING_RATE * (local - center) for local in before]
        for rank, (local, velocity) in enumerate(zip(locals_, velocities, strict=True)):
            gradient = np.zeros_like(initial)
            share = slice(rank * 12 // workers, (rank + 1) * 12 // workers)
            backend.loss_and_gradient(sliced(everything, share), before[rank], gradient)
            velocity[:] = MOMENTUM * velocity + 0.5 / (1 + step) * gradient
            local[:] = before[rank] - velocity - pulls[rank]
        center = center + sum(pulls)
    return locals_, center


def batch_of(batches, step, images):
    batch = Batch.allocate(images, (1, 1, 3))
    batches.fill(step, batch)
    return batch


def sliced(batch, share):
    return type(batch)(batch.images_nhwc[share], batch.labels[share])


def test_sync_easgd_follows_the_equations_of_the_paper(
    in_threads, make_worker, softmax_backend, tiny_images, initial, easgd
):
    def train(transport):
        worker = make_worker(easgd(3), transport=transport, steps=4)
        worker.run()
        return worker.parameters.copy(), worker.model.copy()

    results = in_threads(initial.size, 3, train)
    locals_, center = own_training(softmax_backend, tiny_images, initial, 3, 4)
    for (local, model), expected in zip(results, locals_, strict=True):
        np.testing.assert_allclose(local, expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(model, center, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("workers", [2, 3])
def test_synchronous_sgd_of_several_workers_is_sgd_on_the_whole_batch(
    in_threads, make_worker, initial, workers, synchronous_sgd, no_exchange
):
    def train(transport):
        worker = make_worker(synchronous_sgd(workers), transport=transport)
        worker.run()
        return worker.parameters.copy(), worker.model.copy()

    results = in_threads(initial.size, workers, train)
    alone = make_worker(no_exchange())
    alone.run()
    for parameters, model in results:
        np.testing.assert_array_equal(parameters, results[0][0])
        np.testing.assert_array_equal(model, parameters)
        np.testing.assert_allclose(parameters, alone.parameters, rtol=1e-5, atol=1e-6)


def test_one_worker_of_sync_sgd_takes_the_very_steps_of_one_without_exchange(
    make_worker, synchronous_sgd, no_exchange
):
    synchronous, alone = make_worker(synchronous_sgd()), make_worker(no_exchange())
    synchronous.run()
    alone.run()
    np.testing.assert_array_equal(synchronous.parameters, alone.parameters)


def test_exchanges_happen_in_the_steps_that_are_due(make_worker, monkeypatch, tiny_network, easgd):
    exchanges = []
    worker = make_worker(easgd(period=3), steps=8)

    def exchange(rule):
        exchanges.append(worker.step)

    monkeypatch.setattr(worker.transport, "exchange", exchange)
    worker.run()
    assert exchanges[1:] == [0, 3, 6]  # the first is the rehearsal's


def test_training_lowers_the_loss(make_worker, easgd, recorder):
    make_worker(easgd(), steps=40, observers=[recorder], learning_rate=lambda step: 0.5).run()
    losses = [moment[2] for moment in recorder.moments if moment[0] == "step"]
    assert np.mean(losses[-4:]) < 0.5 * np.mean(losses[:4])


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
    optimizer = AdamW(tiny_network.segments, 0.9, 0.999, 1e-8, 0.0, Clipping(), AdamWUpdate)
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
        readings.append(worker.clocks.compute._entered != 0.0)
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


def test_vectors_that_it_starts_from_are_let_go_before_the_first_step(make_worker, easgd, initial):
    kept = []

    class Looks(Observer):
        def step_done(self, worker, step, loss, learning_rate):
            kept.extend(vector() is not None for vector in vectors)

    start = WorkerState(0, initial.copy(), initial.copy(), {"velocity": initial.copy()}, {})
    vectors = [weakref.ref(each) for each in (start.center, start.local, *start.optimizer.values())]
    worker = make_worker(easgd(), steps=1, start=start, observers=[Looks()])
    del start
    worker.run()
    assert kept == [False] * 3


def test_abort_is_noticed_in_the_next_step_without_any_exchange(
    make_worker, monkeypatch, no_exchange, recorder
):
    worker = make_worker(no_exchange(), steps=100, observers=[recorder])

    def check():
        if worker.step == 3:
            raise RunAborted("stopped")

    monkeypatch.setattr(worker.transport, "check", check)
    with pytest.raises(RunAborted):
        worker.run()
    assert recorder.moments[-1][:2] == ("step", 3)


def test_closing_gives_everything_back(make_worker, softmax_backend, easgd, recorder):
    with pytest.raises(ZeroDivisionError), make_worker(easgd(), observers=[recorder]) as worker:
        raise ZeroDivisionError
    assert recorder.moments == [("closed",)]
    assert softmax_backend.closed
    assert worker.transport.local.size == worker.parameters.size == worker.model.size == 0


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


def test_clocks_cover_the_time_of_the_run(make_worker, monkeypatch, easgd):
    """Each clock gets what happens in it; the time comes from a clock that ticks per reading."""
    from knltrain import metrics

    ticks = iter(range(10_000))
    monkeypatch.setattr(metrics.time, "perf_counter", lambda: float(next(ticks)))
    worker = make_worker(easgd(period=2), steps=4)
    worker.run()
    assert worker.clocks.seconds() == {
        "training": 24.0,  # all 24 readings after the first: 5 a step, 2 more for an exchange
        "compute": 8.0,
        "exchange": 2.0,
        "evaluation": 0.0,
        "checkpoint": 0.0,
    }


def test_every_part_is_closed_even_if_the_first_cannot_be(
    make_worker, softmax_backend, easgd, recorder
):
    class CannotClose(Observer):
        def __init__(self, error):
            self.error = error

        def close(self):
            raise self.error

    first = CannotClose(OSError("no space left"))
    worker = make_worker(easgd(), observers=[first, CannotClose(KeyError()), recorder])
    with pytest.raises(OSError, match="no space left"):
        worker.close()
    assert recorder.moments == [("closed",)]
    assert softmax_backend.closed
    assert worker.transport.local.size == 0
