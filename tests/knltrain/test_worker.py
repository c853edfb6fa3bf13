from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from knltrain.backends.backend import Backend
from knltrain.checkpoint import (
    CheckpointWriter,
    RunIdentity,
    WorkerState,
    latest_checkpoint,
    load_checkpoint,
    load_worker_state,
)
from knltrain.data.dataset import Batch, LabelledImages
from knltrain.data.order import ShardedBatches
from knltrain.errors import NonFiniteLoss, PeerLost, RunAborted
from knltrain.evaluation import Evaluation
from knltrain.exchange.averaging import ModelAveraging
from knltrain.exchange.easgd import EASGD
from knltrain.exchange.loopback import Loopback
from knltrain.exchange.method import Method
from knltrain.network.layers import Dense
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from knltrain.optimizers.sgd import SGD
from knltrain.worker import DueSteps, KeepsCheckpoints, Observer, Worker, WritesResult
from vectorized_ops.reference.elastic import synchronous_average, synchronous_elastic_update
from vectorized_ops.reference.sgd import sgd_update

MOVING_RATE = np.float32(0.3)
MOMENTUM = 0.5


def easgd(workers=1, period=1):
    rule = EASGD(float(MOVING_RATE), workers, synchronous_elastic_update)
    return Method("sync_easgd", rule, "parameters", period)


def synchronous_sgd(workers=1):
    return Method("sync_sgd", ModelAveraging(workers, synchronous_average), "gradient")


def no_exchange(workers=1):
    return Method("none", ModelAveraging(workers, synchronous_average), "gradient", None)


class SoftmaxBackend(Backend):
    """Softmax regression in NumPy: the loss of a network that is one dense layer."""

    def __init__(self, network):
        self.network = network
        self.closed = False

    def loss_and_gradient(self, batch, parameters, gradient):
        images = batch.images_nhwc.reshape(len(batch.labels), -1)
        weights, bias = ParameterVector(self.network, parameters).views.values()
        with np.errstate(invalid="ignore"):
            scores = images @ weights.T + bias
            shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        rows = np.arange(len(images))
        losses = -np.log(shares[rows, batch.labels])
        shares[rows, batch.labels] -= 1
        gradient.fill(0)
        weights, bias = ParameterVector(self.network, gradient).views.values()
        weights[:] = shares.T @ images / len(images)
        bias[:] = shares.mean(axis=0)
        return float(losses.mean())

    def evaluate(self, batch, parameters):
        raise NotImplementedError

    def first_non_finite(self, batch, parameters):
        return "out"

    def close(self):
        self.closed = True


@pytest.fixture
def tiny_network():
    return Network("tiny", (1, 1, 3), (Dense("out", 2),))


@pytest.fixture
def softmax_backend(tiny_network):
    return SoftmaxBackend(tiny_network)


@pytest.fixture
def tiny_images():
    """50 images of 3 values, whose label says whether their sum is positive."""
    values = np.random.default_rng(7).normal(size=(50, 1, 1, 3)).astype(np.float32)
    return LabelledImages(values, (values.sum(axis=(1, 2, 3)) > 0).astype(np.int64))


@pytest.fixture
def initial(tiny_network):
    vector = ParameterVector(tiny_network)
    vector.initialise(1)
    return vector.packed


@pytest.fixture
def make_worker(tiny_images, tiny_network, softmax_backend, initial):
    def make_worker(
        method,
        *,
        transport=None,
        steps=5,
        observers=(),
        start=None,
        learning_rate=lambda step: 0.5 / (1 + step),
    ):
        transport = transport or Loopback(tiny_network.packed_size)
        return Worker(
            start=start or WorkerState(0, initial, initial, {}, {}),
            total_steps=steps,
            batches=ShardedBatches(tiny_images, 12, transport.rank, transport.workers, seed=1),
            image_shape=(1, 1, 3),
            backend=softmax_backend,
            optimizer=SGD(tiny_network.packed_size, MOMENTUM, 0.0, False, sgd_update),
            learning_rate=learning_rate,
            method=method,
            transport=transport,
            observers=observers,
        )

    return make_worker


class Recorder(Observer):
    """Writes down the moments in the order they come."""

    def __init__(self):
        self.moments = []
        self.models = []

    def started(self, worker):
        self.moments.append(("started", worker.step))

    def step_done(self, worker, step, loss, learning_rate):
        self.moments.append(("step", step, loss, learning_rate))
        self.models.append(worker.model.copy())

    def evaluated(self, worker, evaluation):
        self.moments.append(("evaluated", worker.step, evaluation.accuracy))

    def finished(self, worker, result):
        self.moments.append(("finished", result.steps))

    def close(self):
        self.moments.append(("closed",))


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
    in_threads, make_worker, softmax_backend, tiny_images, initial
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
    in_threads, make_worker, initial, workers
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


def test_one_worker_of_sync_sgd_takes_the_very_steps_of_one_without_exchange(make_worker):
    synchronous, alone = make_worker(synchronous_sgd()), make_worker(no_exchange())
    synchronous.run()
    alone.run()
    np.testing.assert_array_equal(synchronous.parameters, alone.parameters)


def test_exchanges_happen_in_the_steps_that_are_due(make_worker, monkeypatch, tiny_network):
    exchanges = []
    worker = make_worker(easgd(period=3), steps=8)

    def exchange(rule):
        exchanges.append(worker.step)

    monkeypatch.setattr(worker.transport, "exchange", exchange)
    worker.run()
    assert exchanges[1:] == [0, 3, 6]  # the first is the rehearsal's


def test_training_lowers_the_loss(make_worker):
    recorder = Recorder()
    make_worker(easgd(), steps=40, observers=[recorder], learning_rate=lambda step: 0.5).run()
    losses = [moment[2] for moment in recorder.moments if moment[0] == "step"]
    assert np.mean(losses[-4:]) < 0.5 * np.mean(losses[:4])


def test_rehearsal_leaves_no_trace(make_worker, initial):
    worker = make_worker(easgd(), steps=0)
    worker.run()
    np.testing.assert_array_equal(worker.parameters, initial)
    np.testing.assert_array_equal(worker.model, initial)
    np.testing.assert_array_equal(worker.optimizer.state["velocity"], 0)
    assert worker.clocks.train_seconds == 0


def test_rehearsal_is_over_before_the_clocks_run(make_worker, softmax_backend, monkeypatch):
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


def test_moments_come_in_order(make_worker):
    recorder = Recorder()
    with make_worker(easgd(), steps=2, observers=[recorder]) as worker:
        worker.run()
    kinds = [moment[0] for moment in recorder.moments]
    assert kinds == ["started", "step", "step", "finished", "closed"]
    steps = [moment for moment in recorder.moments if moment[0] == "step"]
    assert [(step, rate) for _, step, _, rate in steps] == [(1, 0.5), (2, 0.25)]


def test_every_observer_hears_of_an_evaluation(make_worker):
    recorders = [Recorder(), Recorder()]
    worker = make_worker(easgd(), observers=recorders)
    worker.step = 3
    worker.evaluated(Evaluation(0.5, 1.0, 10))
    assert [recorder.moments for recorder in recorders] == [[("evaluated", 3, 0.5)]] * 2
    assert worker.evaluation.accuracy == 0.5


def test_not_finite_loss_names_step_and_layer(make_worker, tiny_images, softmax_backend):
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


def test_not_finite_local_never_reaches_the_center(make_worker, tiny_images, softmax_backend):
    worker = make_worker(easgd(), steps=9)

    class Spoils(Observer):
        def step_done(self, worker, step, loss, learning_rate):
            if step == 2:
                worker.parameters[0] = np.nan

    worker.observers.append(Spoils())
    with pytest.raises(NonFiniteLoss):
        worker.run()
    assert np.isfinite(worker.model).all()


def test_abort_is_noticed_in_the_next_step_without_any_exchange(make_worker, monkeypatch):
    recorder = Recorder()
    worker = make_worker(no_exchange(), steps=100, observers=[recorder])

    def check():
        if worker.step == 3:
            raise RunAborted("stopped")

    monkeypatch.setattr(worker.transport, "check", check)
    with pytest.raises(RunAborted):
        worker.run()
    assert recorder.moments[-1][:2] == ("step", 3)


def test_closing_gives_everything_back(make_worker, softmax_backend):
    recorder = Recorder()
    with pytest.raises(ZeroDivisionError), make_worker(easgd(), observers=[recorder]) as worker:
        raise ZeroDivisionError
    assert recorder.moments == [("closed",)]
    assert softmax_backend.closed
    assert worker.transport.local.size == worker.parameters.size == worker.model.size == 0


def test_result_holds_the_means_over_the_workers(in_threads, make_worker, initial):
    def train(transport):
        worker = make_worker(no_exchange(2), transport=transport, steps=0)
        seconds = {"training": 2.0 + transport.rank, "exchange": 1.0, "evaluation": 50.0}
        worker._start = WorkerState(0, initial, initial, {}, seconds)
        worker.step = 3
        return worker.run()

    first, second = in_threads(initial.size, 2, train)
    assert first == second
    assert first.steps == 3
    assert first.train_seconds == 2.5
    assert first.exchange_share == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert first.images_per_second == pytest.approx(3 * 12 / 2.5)


def test_clocks_cover_the_time_of_the_run(make_worker, monkeypatch):
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


@pytest.mark.parametrize("make_method", [easgd, synchronous_sgd, no_exchange])
def test_team_that_goes_on_ends_where_one_that_never_stopped_ends(
    in_threads, make_worker, initial, tiny_network, tmp_path, make_method
):
    method = make_method(2)

    def train(transport, steps, folder, start=None):
        identity = RunIdentity(tiny_network, 2, method.name, 1)
        writer = CheckpointWriter(folder, identity, transport, 1)
        worker = make_worker(
            method,
            transport=transport,
            steps=steps,
            start=start,
            observers=[KeepsCheckpoints(writer, DueSteps(0, steps))],
        )
        worker.run()
        return worker.parameters.copy(), worker.model.copy()

    def go_on(transport):
        found = load_checkpoint(tmp_path / "checkpoint-3", tiny_network)
        example = {"velocity": initial}
        identity = RunIdentity(tiny_network, 2, method.name, 1)
        start = load_worker_state(found, transport.rank, identity=identity, optimizer_state=example)
        return train(transport, 7, tmp_path, start)

    (tmp_path / "whole").mkdir()
    whole = in_threads(initial.size, 2, lambda each: train(each, 7, tmp_path / "whole"))
    in_threads(initial.size, 2, lambda each: train(each, 3, tmp_path))
    resumed = in_threads(initial.size, 2, go_on)
    np.testing.assert_array_equal(resumed, whole)
    is_shared = method.name == "sync_sgd"
    assert np.array_equal(whole[0][0], whole[1][0]) is is_shared  # or the test would be too easy


@pytest.mark.parametrize(
    ("period", "total", "expected"),
    [
        (0, 7, [7]),
        (3, 7, [3, 6, 7]),
        (3, 6, [3, 6]),
        (2.5, 10, [3, 5, 8, 10]),
        (100, 7, [7]),
        (0.5, 3, [1, 2, 3]),
    ],
)
def test_due_steps(period, total, expected):
    due = DueSteps(period, total)
    assert [step for step in range(1, total + 1) if step in due] == expected


def test_checkpoints_are_saved_after_the_steps_that_are_due(make_worker):
    saved = []

    class Writer:
        def save(self, state, *, proved):
            assert proved is (state.step == 5)
            saved.append((state.step, state.local.copy(), state.optimizer["velocity"].copy()))

    recorder = Recorder()
    worker = make_worker(
        no_exchange(), observers=[recorder, KeepsCheckpoints(Writer(), DueSteps(2, 5))]
    )
    worker.run()
    assert [step for step, _, _ in saved] == [2, 4, 5]
    for step, local, velocity in saved:
        np.testing.assert_array_equal(local, recorder.models[step - 1])
        assert np.any(velocity != 0)


def test_rank_0_writes_the_result_with_its_facts(make_worker, tmp_path):
    worker = make_worker(easgd(), observers=[WritesResult(tmp_path, {"seed": 4})])
    worker.run()
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["seed"] == 4
    assert result["steps"] == 5
    assert result["test_accuracy"] is None
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_other_ranks_write_no_result(in_threads, make_worker, tmp_path, initial):
    def train(transport):
        folder = tmp_path / str(transport.rank)
        folder.mkdir()
        make_worker(no_exchange(2), transport=transport, observers=[WritesResult(folder, {})]).run()

    in_threads(initial.size, 2, train)
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("*/*")] == [
        "0/result.json"
    ]


def test_every_part_is_closed_even_if_the_first_cannot_be(make_worker, softmax_backend):
    class CannotClose(Observer):
        def __init__(self, error):
            self.error = error

        def close(self):
            raise self.error

    recorder = Recorder()
    first = CannotClose(OSError("no space left"))
    worker = make_worker(easgd(), observers=[first, CannotClose(KeyError()), recorder])
    with pytest.raises(OSError, match="no space left"):
        worker.close()
    assert recorder.moments == [("closed",)]
    assert softmax_backend.closed
    assert worker.transport.local.size == 0


@pytest.mark.parametrize("make_method", [easgd, synchronous_sgd, no_exchange])
def test_last_checkpoint_of_a_team_that_diverges_is_a_good_one(
    in_threads, make_worker, initial, tiny_network, tmp_path, make_method
):
    """Each step's checkpoint is written before the loss of its model is known."""
    method = make_method(2)

    class SpoilsOne(Observer):
        def step_done(self, worker, step, loss, learning_rate):
            if step == 3 and worker.transport.rank == 1:
                worker.parameters[0] = np.nan

    def train(transport):
        identity = RunIdentity(tiny_network, 2, method.name, 1)
        writer = CheckpointWriter(tmp_path, identity, transport, 1)
        observers = [SpoilsOne(), KeepsCheckpoints(writer, DueSteps(1, 9))]
        make_worker(method, transport=transport, steps=9, observers=observers).run()

    with pytest.raises((NonFiniteLoss, PeerLost)):
        in_threads(initial.size, 2, train)
    folder = latest_checkpoint(tmp_path)
    assert folder.name == "checkpoint-2"
    found = load_checkpoint(folder, tiny_network)
    identity = RunIdentity(tiny_network, 2, method.name, 1)
    for rank in range(2):
        state = load_worker_state(found, rank, identity=identity, optimizer_state={})
        assert np.isfinite(state.local).all()
