"""Workers that train a network of one dense layer on a few small images."""

from __future__ import annotations

import numpy as np
import pytest

from knltrain.backends.backend import Backend, nobody_waits
from knltrain.checkpoint.contents import WorkerState
from knltrain.data.order import ShardedBatches
from knltrain.exchange.rules.averaging import GradientMean
from knltrain.exchange.rules.easgd import EASGD
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.strategies.strategy import strategy_in
from knltrain.exchange.strategies.synchronous import SynchronousStrategy
from knltrain.exchange.transports.loopback import Loopback
from knltrain.network.layers import Dense
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from knltrain.optimizers.sgd import SGD
from knltrain.worker.loop import Worker
from knltrain.worker.observer import Observer
from tests.knltrain.data.given import given_images
from vectorized_ops.parameter_groups import Clipping
from vectorized_ops.reference import elastic
from vectorized_ops.reference.elastic import synchronous_average
from vectorized_ops.reference.sgd import SGDUpdate

MOVING_RATE = 0.3
MOMENTUM = 0.5


@pytest.fixture
def easgd():
    """easgd(workers, period): the method whose moving rate is 0.3."""
    return _easgd


@pytest.fixture
def synchronous_sgd():
    """synchronous_sgd(workers): the method."""
    return _synchronous_sgd


@pytest.fixture
def no_exchange():
    """no_exchange(workers): the method."""
    return _no_exchange


@pytest.fixture(params=["sync_easgd", "sync_sgd", "none"])
def every_method(request):
    """Each of the three above."""
    methods = {"sync_easgd": _easgd, "sync_sgd": _synchronous_sgd, "none": _no_exchange}
    return methods[request.param]


def _easgd(workers=1, period=1):
    rule = EASGD(MOVING_RATE, elastic)
    return Method("sync_easgd", rule, SynchronousStrategy, period)


def _synchronous_sgd(workers=1):
    return Method("sync_sgd", GradientMean(workers, synchronous_average), SynchronousStrategy)


def _no_exchange(workers=1):
    return Method("none", GradientMean(workers, synchronous_average), SynchronousStrategy, None)


class SoftmaxBackend(Backend):
    """Softmax regression in NumPy: the loss of a network that is one dense layer."""

    def __init__(self, network):
        self.network = network
        self.closed = False

    def loss_and_gradient(self, batch, parameters, gradient, ready=nobody_waits):
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
    return given_images(values, (values.sum(axis=(1, 2, 3)) > 0).astype(np.int64))


@pytest.fixture
def initial(tiny_network):
    vector = ParameterVector(tiny_network)
    vector.initialise(1)
    return vector.packed


def plain_sgd(segments):
    return SGD(segments, MOMENTUM, 0.0, False, Clipping(), SGDUpdate)


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
        optimizer=None,
        termination="each",
        requests=None,
        batch=12,
        iter_size=1,
        feed=None,
        shares=None,
        run_loss=None,
    ):
        transport = transport or Loopback(tiny_network.packed_size)
        return Worker(
            start=start or WorkerState(0, initial, initial, {}, {}),
            total_steps=steps,
            batches=ShardedBatches(
                tiny_images,
                batch,
                transport.rank,
                transport.workers,
                1,
                iter_size=iter_size,
                shares=shares,
            ),
            image_shape=(1, 1, 3),
            backend=softmax_backend,
            optimizer=optimizer or plain_sgd(tiny_network.parameter_groups),
            learning_rate=learning_rate,
            strategy=strategy_in(method, transport),
            termination=termination,
            requests=requests,
            observers=observers,
            feed=feed,
            run_loss=run_loss,
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

    def diverged(self, worker, step):
        self.moments.append(("diverged", step))

    def finished(self, worker, result):
        self.moments.append(("finished", result.steps))

    def close(self):
        self.moments.append(("closed",))


@pytest.fixture
def recorder():
    """An observer that remembers the moments of the loop."""
    return Recorder()
