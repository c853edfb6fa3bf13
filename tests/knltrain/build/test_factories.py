"""Every part takes what the configuration says."""

from __future__ import annotations

import numpy as np
import pytest

from knltrain.build import build_dataset, build_method, build_optimizer, resolve
from knltrain.errors import ConfigError, DataError
from knltrain.exchange.averaging import ModelAveraging
from knltrain.exchange.easgd import EASGD


def test_dataset_is_cut_as_configured(config):
    dataset = build_dataset(config())
    assert (len(dataset.train), len(dataset.test)) == (32, 20)


def test_mnist_needs_its_folder(config, tmp_path):
    with pytest.raises(ConfigError, match=r"data.root is missing"):
        build_dataset(config(data__name="mnist", data__train_images=None))
    with pytest.raises(DataError, match=str(tmp_path)):
        build_dataset(config(data__name="mnist", data__root=str(tmp_path)))


def test_optimizer_takes_what_the_configuration_says(config):
    chosen = config(optimizer__momentum=0.5, optimizer__weight_decay=0.25)
    optimizer = build_optimizer(chosen, 16)
    parameters, gradient = np.ones(16, np.float32), np.ones(16, np.float32)
    optimizer.step(parameters, gradient, 0.1)
    optimizer.step(parameters, gradient, 0.1)
    first = 0.1 * (1 + 0.25)
    second = 0.5 * first + 0.1 * (1 + 0.25 * (1 - first))
    np.testing.assert_allclose(parameters, 1 - first - second, rtol=1e-6)


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
    assert isinstance(method.rule, ModelAveraging)


def test_no_exchange_is_never_due(config):
    method = build_method(config(exchange__method="none"), 2)
    assert method.name == "none"
    assert not any(method.due(step) for step in range(10))


def test_gradients_cannot_be_exchanged_now_and_then(config):
    with pytest.raises(ConfigError, match=r"exchange.communication_period = 2"):
        build_method(config(exchange__method="sync_sgd", exchange__communication_period=2), 2)
