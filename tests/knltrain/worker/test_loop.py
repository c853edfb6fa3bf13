"""The loop does what the equations say, in every worker, and ends clearly."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

from knltrain.checkpoint.contents import WorkerState
from knltrain.data.dataset import Batch
from knltrain.data.order import ShardedBatches
from knltrain.worker.observer import Observer

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


@pytest.mark.parametrize("iter_size", [1, 2])
@pytest.mark.parametrize("shares", [(8, 4), (12, 0), (1, 2, 9)])
def test_unequal_shares_give_the_gradient_of_the_whole_batch(
    in_threads, make_worker, initial, shares, iter_size, synchronous_sgd, no_exchange
):
    def train(transport):
        method = synchronous_sgd(len(shares))
        worker = make_worker(method, transport=transport, shares=shares, iter_size=iter_size)
        worker.run()
        assert worker.images_done == 12 * iter_size * 5
        return worker.parameters.copy()

    results = in_threads(initial.size, len(shares), train)
    alone = make_worker(no_exchange(), iter_size=iter_size)
    alone.run()
    for parameters in results:
        np.testing.assert_array_equal(parameters, results[0])
        np.testing.assert_allclose(parameters, alone.parameters, rtol=1e-5, atol=1e-6)


def test_shares_that_change_within_a_run_change_no_gradient(
    in_threads, make_worker, initial, synchronous_sgd, no_exchange
):
    class Changing(Observer):
        def step_done(self, worker, step, loss, learning_rate):
            worker.share_out([(6, 6), (3, 9), (12, 0), (0, 12), (5, 7)][step % 5])

    def train(transport):
        make = make_worker(synchronous_sgd(2), transport=transport, observers=[Changing()])
        make.run()
        return make.parameters.copy()

    alone = make_worker(no_exchange())
    alone.run()
    for parameters in in_threads(initial.size, 2, train):
        np.testing.assert_allclose(parameters, alone.parameters, rtol=1e-5, atol=1e-6)


def test_one_worker_of_sync_sgd_takes_the_very_steps_of_one_without_exchange(
    make_worker, synchronous_sgd, no_exchange
):
    synchronous, alone = make_worker(synchronous_sgd()), make_worker(no_exchange())
    synchronous.run()
    alone.run()
    np.testing.assert_array_equal(synchronous.parameters, alone.parameters)


def test_training_lowers_the_loss(make_worker, easgd, recorder):
    make_worker(easgd(), steps=40, observers=[recorder], learning_rate=lambda step: 0.5).run()
    losses = [moment[2] for moment in recorder.moments if moment[0] == "step"]
    assert np.mean(losses[-4:]) < 0.5 * np.mean(losses[:4])


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


def test_closing_gives_everything_back(make_worker, softmax_backend, easgd, recorder):
    with pytest.raises(ZeroDivisionError), make_worker(easgd(), observers=[recorder]) as worker:
        raise ZeroDivisionError
    assert recorder.moments == [("closed",)]
    assert softmax_backend.closed
    assert worker.gradient.size == worker.parameters.size == worker.model.size == 0


def test_clocks_cover_the_time_of_the_run(make_worker, softmax_backend, monkeypatch, easgd):
    """Each clock gets what happens in it; the time stands still but for what is spent here."""
    from knltrain import clocks

    now = [0.0]
    monkeypatch.setattr(clocks.time, "perf_counter", lambda: now[0])
    worker = make_worker(easgd(period=2), steps=4)

    def spends(place, name, seconds):
        act = getattr(place, name)

        def acting(*arguments):
            now[0] += seconds
            return act(*arguments)

        monkeypatch.setattr(place, name, acting)

    spends(worker.batches, "fill", 1.0)
    spends(softmax_backend, "loss_and_gradient", 10.0)
    spends(worker.optimizer, "step", 100.0)
    spends(worker.team, "exchange", 1000.0)
    spends(worker.team, "check", 0.25)
    result = worker.run()
    assert worker.clocks.wall_seconds == sum(worker.clocks.costs().values()) == now[0]
    assert result.worker_clocks_shares == ((now[0] - 1.0) / now[0],)  # all but the rest
    assert worker.clocks.costs() == {
        "reading": 0.0,
        "set_up": 1111.0,  # the rehearsal
        "batch": 4.0,
        "gradient": 40.0,
        "update": 400.0,
        "waiting": 0.0,
        "moving": 2000.0,
        "center_update": 0.0,
        "rest": 1.0,
        "meeting": 0.0,
        "evaluation": 0.0,
        "checkpoint": 0.0,
    }
    assert worker.clocks.train_seconds == 2445.0


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
    assert worker.strategy.transport.local.size == 0
