"""Every part takes what the configuration says."""

from __future__ import annotations

import pytest

from knltrain.assembly import build_backend, build_dataset, build_method, resolve
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
    )
    asked = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("knltrain.backends.cpu.CpuBackend", lambda *given: asked.append(given))
        build_backend(chosen, None, 8, 1)
    assert asked == [(None, 8, 1, "reference", winograd, micro_batch)]


def test_mnist_needs_its_folder(config, tmp_path):
    with pytest.raises(ConfigError, match=r"data.root is missing"):
        build_dataset(config(data__name="mnist", data__train_images=None))
    with pytest.raises(DataError, match=str(tmp_path)):
        build_dataset(config(data__name="mnist", data__root=str(tmp_path)))


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
