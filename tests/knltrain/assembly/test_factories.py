"""Every part takes what the configuration says."""

from __future__ import annotations

import numpy as np
import pytest

from knltrain.assembly import build_backend, build_dataset, build_method, resolve
from knltrain.assembly.factories import layout_for
from knltrain.assembly.names import check_names, image_shape_of, label_shape_of, read_halves
from knltrain.backends.loss import SoftmaxCrossEntropy
from knltrain.config.backend_tables import BackendConfig
from knltrain.errors import ConfigError, DataError
from knltrain.exchange.rules.averaging import GradientMean
from knltrain.exchange.rules.easgd import EASGD
from knltrain.network.layers import Dense
from knltrain.network.network import Network
from knltrain.network.zoo.networks import network_named
from vectorized_ops.numba.compiling import journal
from vectorized_ops.numba.compiling.journal import Tuning


def test_dataset_is_cut_as_configured(config):
    dataset = build_dataset(config())
    assert (len(dataset.train), len(dataset.test)) == (32, 20)


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        ("eager", "EagerExecution"),
        ("compile", "CompiledExecution"),
        pytest.param("ipex", "IpexExecution", marks=pytest.mark.ipex),
    ],
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
    loss = SoftmaxCrossEntropy(0.25)
    assert asked == [(None, 8, 1, "reference", winograd, micro_batch, loss, {}, "float32", False)]


@pytest.mark.parametrize(
    ("tuning", "deterministic", "mode"),
    [("auto", False, "auto"), ("full", False, "full"), ("auto", True, "fixed")],
)
def test_measuring_is_bounded_as_configured(
    config, monkeypatch: pytest.MonkeyPatch, tuning, deterministic, mode
):
    spent = Tuning(spent=9.0, measured=2)
    monkeypatch.setattr(journal, "TUNING", spent)
    monkeypatch.setattr("knltrain.backends.cpu.CpuBackend", lambda *_: None)
    chosen = {"name": "cpu", "implementation": "numba", "tuning": tuning, "tuning_seconds": 7.0}
    build_backend(
        config(backend=chosen, train__deterministic=deterministic), network_named("lenet"), 16, 1
    )
    assert spent == Tuning(mode, 7.0, spent=0.0, measured=0)


@pytest.mark.parametrize(
    ("options", "images", "precision", "layout"),
    [
        ({}, 20, "float32", "channels_last"),
        ({}, 20, "bfloat16", "images_last"),
        ({}, 32, "float32", "images_last"),
        ({"micro_batch": 8}, 32, "float32", "channels_last"),
        ({"micro_batch": "auto"}, 32, "float32", "images_last"),
        ({"algorithms": {"*": "direct"}}, 20, "float32", "images_last"),
        ({"layout": "images_last"}, 20, "float32", "images_last"),
        ({"layout": "channels_last"}, 32, "float32", "channels_last"),
    ],
)
def test_layout_is_what_was_asked_for_or_what_suits_the_images(options, images, precision, layout):
    chosen, network = BackendConfig(**options), network_named("vgg-16")
    assert layout_for(chosen, network, images, precision) == layout


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


def test_a_reader_takes_the_files_and_keys_of_the_configuration(config, tmp_path):
    pixels = np.zeros((12, 6, 7, 3), np.uint8)
    pixels[..., 0] = 9 * np.arange(12)[:, None, None]
    np.savez(tmp_path / "own.npz", images=pixels, labels=1 + np.arange(12) % 3)
    own = {"data__name": "numpy", "data__root": str(tmp_path), "data__train": "own.npz"}
    own |= {"data__test_share": 0.5, "data__first_label": 1, "data__channel_order": "bgr"}
    own |= {"data__train_images": 4, "data__test_images": None}
    chosen = config(**own)
    dataset = build_dataset(chosen)
    assert (len(dataset.train), len(dataset.test), dataset.classes) == (4, 6, 3)
    assert dataset.train.source.labels.min() == 0
    assert dataset.test.source.picture(0)[0, 0].tolist() == [0, 0, 27]
    assert image_shape_of(chosen) == (6, 7, 3)
    assert label_shape_of(chosen) == ()


def test_random_pictures_have_the_size_that_is_asked_for(config):
    own = {"data__name": "random", "data__classes": 1000, "data__image": (224, 200, 3)}
    chosen = config(**own, data__train_images=1_281_167, data__test_images=50_000)
    assert image_shape_of(chosen) == (224, 200, 3)
    halves = read_halves(chosen)
    assert (len(halves.train), len(halves.test)) == (1_281_167, 50_000)
    unread = config(data__name="random", network__name="own.py:f", network__module="own.py:f")
    with pytest.raises(ConfigError, match=r"data.image = \[224, 224, 3\] and data.classes = 1000"):
        image_shape_of(unread)
    with pytest.raises(ConfigError, match=r"100,000 x 1,000 pixels, expected at most 89,478,485"):
        image_shape_of(config(**(own | {"data__image": (100_000, 1000, 1)})))


def test_random_pictures_stand_in_for_files(config):
    """Keys of files are passed over."""
    files = {"data__root": "/nowhere", "data__test_share": 0.2, "data__broken": "skip"}
    chosen = config(data__name="random", **files)
    check_names(chosen)
    halves = read_halves(chosen)
    assert halves.train.image_shape == (28, 28, 1)
    assert len(halves.train.class_names) == 10


def test_keys_that_a_data_set_does_not_read_are_refused(config):
    with pytest.raises(ConfigError, match=r"data.label = 'fine': .* 'digits' does not .* cifar100"):
        check_names(config(data__label="fine"))
    with pytest.raises(
        ConfigError, match=r"data.image = .* 'digits' does not read it, only random"
    ):
        read_halves(config(data__image=(1, 1, 1)))


def test_copies_that_do_not_fit_are_refused(config, tmp_path, monkeypatch):
    pixels = np.arange(12 * 6 * 7 * 3, dtype=np.uint8).reshape(12, 6, 7, 3)
    np.savez_compressed(tmp_path / "own.npz", images=pixels, labels=np.arange(12) % 3)
    own = {"data__name": "numpy", "data__root": str(tmp_path), "data__test_share": 0.5}
    chosen = config(**own, data__train_images=None, data__test_images=None)
    monkeypatch.setattr("knltrain.data.extent.available_bytes", lambda: 2000)
    build_dataset(chosen, 2)
    with pytest.raises(DataError, match=r"6 training and 6 test images .* 2\.0 KiB"):
        build_dataset(chosen, 3)


def test_mapped_pictures_take_no_room_whatever_the_other_half_does(config, tmp_path, monkeypatch):
    half = {
        "images": np.arange(12 * 6 * 7 * 3, dtype=np.uint8).reshape(12, 6, 7, 3),
        "labels": np.arange(12) % 3,
    }
    np.savez(tmp_path / "train.npz", **half)
    np.savez_compressed(tmp_path / "test.npz", **half)
    own = {"data__name": "numpy", "data__root": str(tmp_path), "data__train": "train.npz"}
    own |= {"data__test": "test.npz", "data__train_images": None, "data__test_images": None}
    monkeypatch.setattr("knltrain.data.extent.available_bytes", lambda: 2000)
    assert not build_dataset(config(**own), 2).train.source.held_bytes
