"""Every part takes what the configuration says."""

from __future__ import annotations

import numpy as np
import pytest

from knltrain.assembly import build_backend, build_dataset, build_method, build_optimizer, resolve
from knltrain.backends.loss import SoftmaxCrossEntropy
from knltrain.errors import ConfigError, DataError
from knltrain.exchange.rules.averaging import GradientMean
from knltrain.exchange.rules.easgd import EASGD
from knltrain.network.layers import Dense
from knltrain.network.network import Network


def test_dataset_is_cut_as_configured(config):
    dataset = build_dataset(config())
    assert (len(dataset.train), len(dataset.test)) == (32, 20)


@pytest.mark.parametrize(
    ("engine", "expected"),
    [("eager", "EagerExecution"), pytest.param("ipex", "IpexExecution", marks=pytest.mark.ipex)],
)
def test_modules_of_the_torch_backend_are_run_by_its_engine(config, engine, expected):
    network = Network("small", (1, 1, 16), (Dense("out", 1, bias=False),))
    backend = build_backend(config(backend__engine=engine), network, 2, 1)
    assert type(backend._execution).__name__ == expected
    backend.close()


@pytest.mark.parametrize(("winograd", "micro_batch"), [(True, 0), (False, 16), (True, "auto")])
def test_cpu_backend_is_made_as_configured(config, winograd, micro_batch):
    chosen = config(
        backend__name="cpu",
        backend__implementation="reference",
        backend__winograd=winograd,
        backend__micro_batch=micro_batch,
        loss__label_smoothing=0.25,
    )
    asked = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("knltrain.backends.cpu.CpuBackend", lambda *given: asked.append(given))
        build_backend(chosen, None, 8, 1)
    assert asked == [(None, 8, 1, "reference", winograd, micro_batch, SoftmaxCrossEntropy(0.25))]


def test_mnist_needs_its_folder(config, tmp_path):
    with pytest.raises(ConfigError, match=r"data.root is missing"):
        build_dataset(config(data__name="mnist", data__train_images=None))
    with pytest.raises(DataError, match=str(tmp_path)):
        build_dataset(config(data__name="mnist", data__root=str(tmp_path)))


@pytest.fixture
def take_steps(config):
    """take_steps(rate, gradients, a__b=c): where steps of the optimizer lead to from 1."""

    def take(rate=0.1, gradients=(1.0, 1.0), **changes):
        network = Network("small", (1, 1, 16), (Dense("out", 1, bias=False),))
        optimizer = build_optimizer(config(**changes), network)
        parameters = np.ones(16, np.float32)
        for gradient in gradients:
            optimizer.step(parameters, np.full(16, gradient, np.float32), rate)
        assert np.ptp(parameters) == 0
        return float(parameters[0])

    return take


@pytest.mark.parametrize("nesterov", [False, True])
def test_sgd_takes_what_the_configuration_says(take_steps, nesterov):
    first = 0.1 * (1 + 0.25)
    moved = (1 + 0.5) * first if nesterov else first
    second = 0.5 * first + 0.1 * (1 + 0.25 * (1 - moved))
    moved += (1 + 0.5) * second - 0.5 * first if nesterov else second
    found = take_steps(
        optimizer__momentum=0.5, optimizer__weight_decay=0.25, optimizer__nesterov=nesterov
    )
    assert found == pytest.approx(1 - moved, rel=1e-6)


def test_lars_takes_what_the_configuration_says(take_steps):
    first = 2 * 0.1 / (1 + 0.25) * (1 + 0.25)
    after = 1 - first
    second = 0.5 * first + 2 * 0.1 * after / (1 + 0.25 * after) * (1 + 0.25 * after)
    found = take_steps(
        rate=2.0,
        optimizer__name="lars",
        optimizer__momentum=0.5,
        optimizer__weight_decay=0.25,
        optimizer__trust_coefficient=0.1,
    )
    assert found == pytest.approx(after - second, rel=1e-6)


def test_adamw_takes_what_the_configuration_says(take_steps):
    """By another beta the corrected moments of gradients that are not all equal would differ."""
    chosen = {
        "optimizer__name": "adamw",
        "optimizer__beta1": 0.75,
        "optimizer__beta2": 0.5,
        "optimizer__epsilon": 0.5,
        "optimizer__weight_decay": 0.25,
    }
    w, m, v = 1.0, 0.0, 0.0
    for t, g in enumerate((1.0, 3.0), start=1):
        m, v = 0.75 * m + 0.25 * g, 0.5 * v + 0.5 * g * g
        corrected = m / (1 - 0.75**t), v / (1 - 0.5**t)
        w -= 0.1 * (corrected[0] / (corrected[1] ** 0.5 + 0.5) + 0.25 * w)
    assert take_steps(gradients=(1.0, 3.0), **chosen) == pytest.approx(w, rel=1e-6)


@pytest.mark.parametrize("name", ["sgd", "lars", "adamw"])
def test_gradient_is_clipped_as_the_configuration_says(take_steps, name):
    def found(**clipping):
        decay = {"optimizer__name": name, "optimizer__weight_decay": 0.5}
        epsilon = {"optimizer__epsilon": 0.5} if name == "adamw" else {}
        return take_steps(gradients=(-1.0, -1.0), **decay, **epsilon, **clipping)

    by_norm, by_value = found(optimizer__clip_norm=3.0), found(optimizer__clip_value=0.75)
    assert by_norm == pytest.approx(by_value, rel=1e-6)
    assert by_norm != pytest.approx(found(), rel=1e-6)


def test_moving_rate_left_out_is_0_9_over_the_workers(config):
    rule = build_method(config(), 3).rule
    assert isinstance(rule, EASGD)
    assert rule.moving_rate == pytest.approx(0.3)


def test_default_of_the_moving_rate_stands_in_one_place(config, monkeypatch):
    monkeypatch.setattr(resolve, "BETA", 0.6)
    assert build_method(config(), 3).rule.moving_rate == pytest.approx(0.2)
    chosen = resolve.resolved(config(workers=2), 2)
    assert chosen.exchange.moving_rate == pytest.approx(0.3)


def test_method_takes_what_the_configuration_says(config):
    method = build_method(config(exchange__moving_rate=0.25, exchange__communication_period=4), 2)
    assert (method.name, method.moves, method.period) == ("sync_easgd", "parameters", 4)
    assert method.rule.moving_rate == 0.25


def test_synchronous_sgd_averages_gradients(config):
    method = build_method(config(exchange__method="sync_sgd"), 2)
    assert (method.name, method.moves, method.period) == ("sync_sgd", "gradient", 1)
    assert isinstance(method.rule, GradientMean)


def test_no_exchange_is_never_due(config):
    method = build_method(config(exchange__method="none"), 2)
    assert method.name == "none"
    assert not any(method.due(step) for step in range(10))


def test_gradients_cannot_be_exchanged_now_and_then(config):
    with pytest.raises(ConfigError, match=r"exchange.communication_period = 2"):
        build_method(config(exchange__method="sync_sgd", exchange__communication_period=2), 2)
