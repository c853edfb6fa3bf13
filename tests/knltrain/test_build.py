from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from knltrain import build
from knltrain.build import (
    build_backend,
    build_dataset,
    build_method,
    build_network,
    build_optimizer,
    build_transport,
    build_worker,
    check_names,
    network_size,
    resolve_workers,
    resolved,
)
from knltrain.checkpoint import latest_checkpoint, load_checkpoint
from knltrain.config import RunConfig
from knltrain.errors import CheckpointError, ConfigError
from knltrain.exchange.averaging import ModelAveraging
from knltrain.exchange.easgd import EASGD
from knltrain.exchange.loopback import Loopback
from knltrain.exchange.node_shared import NodeShared
from knltrain.exchange.segment import Segment
from knltrain.metrics import read_metrics
from knltrain.network.layers import Dense
from knltrain.network.network import Network
from knltrain.report import draw_curves, summary
from knltrain.worker import Observer

METHODS = ["sync_easgd", "sync_sgd", "none"]


def config(**changes):
    """Five steps of LeNet on 32 digits; `a__b=c` changes b in table a."""
    tables = {
        "network": {"name": "lenet"},
        "data": {"name": "digits", "train_images": 32, "test_images": 20},
        "train": {"steps": 5, "batch": 16},
        "learning_rate": {"base": 0.01, "policy": "inv", "gamma": 0.1, "power": 0.75},
        "backend": {"name": "torch", "implementation": "reference"},
        "evaluation": {"every_epochs": 1.0},
    }
    for key, value in changes.items():
        table, _, name = key.rpartition("__")
        (tables.setdefault(table, {}) if table else tables)[name] = value
    return RunConfig.model_validate(tables)


def make_worker(configuration, run_folder, **options):
    transport = build_transport(configuration, None, 0)
    return build_worker(configuration, transport, run_folder=run_folder, threads=1, **options)


def run(configuration, run_folder, **options):
    with make_worker(configuration, run_folder, **options) as worker:
        worker.run()
        return worker.parameters.copy(), worker.model.copy(), velocity(worker).copy()


def velocity(worker):
    return worker.optimizer.state["velocity"]


class StopsAfter(Observer):
    """Ends a run as a kill would, that is, by an error in the middle."""

    def __init__(self, step):
        self.step = step

    def step_done(self, worker, step, loss, learning_rate):
        if step == self.step:
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("key", "given", "expected"),
    [
        ("network__name", "lenett", "network.name 'lenett': expected one of 'lenet'; did you"),
        ("data__name", "digit", "data.name 'digit': .* did you mean 'digits'"),
        ("optimizer__name", "sdg", "optimizer.name 'sdg': .* did you mean 'sgd'"),
        ("exchange__method", "sync_easg", "exchange.method 'sync_easg': .* mean 'sync_easgd'"),
        ("backend__name", "gpu", "backend.name 'gpu': expected one of 'cpu', 'torch'"),
        ("backend__implementation", "onednm", "backend.implementation .* mean 'onednn'"),
    ],
)
def test_unknown_name_is_refused_with_the_known_ones(key, given, expected):
    with pytest.raises(ConfigError, match=f"unknown {expected}"):
        check_names(config(**{key: given}))


def test_known_names_pass():
    for method in METHODS:
        check_names(config(exchange__method=method))


def test_names_and_sizes_are_known_without_any_heavy_import():
    code = """
import sys
from pathlib import Path
from knltrain.build import check_names, network_size
from knltrain.config import RunConfig
config = RunConfig.model_validate({"network": {"name": "lenet"}, "data": {"name": "digits"},
    "train": {"steps": 5, "batch": 8}, "learning_rate": {"base": 0.1}})
check_names(config)
network_size(config)
print([name for name in ("numpy", "numba", "torch", "matplotlib") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("workers", "batch", "cores", "expected"),
    [
        ("auto", 64, 1, 1),
        ("auto", 64, 4, 4),
        ("auto", 64, 6, 4),
        ("auto", 64, 64, 4),
        ("auto", 960, 64, 60),
        ("auto", 7, 6, 1),
        (3, 60, 1, 3),
    ],
)
def test_number_of_workers(workers, batch, cores, expected):
    assert resolve_workers(config(workers=workers, train__batch=batch), cores) == expected


def test_workers_that_cannot_share_a_batch_never_get_here():
    with pytest.raises(ValueError, match="do not divide evenly among 3 workers"):
        config(workers=3)


def test_size_is_that_of_the_packed_vector():
    network = build_network(config())
    assert network_size(config()) == network.packed_size >= network.parameter_count == 431_080


def test_resolved_run_leaves_nothing_open():
    run = resolved(config(workers="auto", train__batch=64), physical_cores=2)
    assert (run.workers, run.exchange.moving_rate) == (2, pytest.approx(0.45))
    given = resolved(config(workers="auto", train__batch=64, exchange__moving_rate=0.1), 2)
    assert given.exchange.moving_rate == 0.1
    averaged = resolved(config(workers="auto", train__batch=64, exchange__method="sync_sgd"), 2)
    assert averaged.exchange.moving_rate is None


def test_moving_rate_left_out_is_0_9_over_the_workers():
    rule = build_method(config(), 3).rule
    assert isinstance(rule, EASGD)
    assert rule.moving_rate == pytest.approx(0.3)


def test_method_takes_what_the_configuration_says():
    method = build_method(config(exchange__moving_rate=0.25, exchange__communication_period=4), 2)
    assert (method.name, method.moves, method.period) == ("sync_easgd", "parameters", 4)
    assert method.rule.moving_rate == 0.25


def test_synchronous_sgd_averages_gradients():
    method = build_method(config(exchange__method="sync_sgd"), 2)
    assert (method.name, method.moves, method.period) == ("sync_sgd", "gradient", 1)
    assert isinstance(method.rule, ModelAveraging)


def test_no_exchange_is_never_due():
    method = build_method(config(exchange__method="none"), 2)
    assert method.name == "none"
    assert not any(method.due(step) for step in range(10))


def test_gradients_cannot_be_exchanged_now_and_then():
    with pytest.raises(ConfigError, match=r"exchange.communication_period = 2"):
        build_method(config(exchange__method="sync_sgd", exchange__communication_period=2), 2)


@pytest.mark.parametrize(
    ("implementation", "kernels"),
    [("numba", "numba"), ("onednn", "numba"), ("reference", "reference")],
)
def test_kernels_beside_the_network_follow_the_implementation(implementation, kernels):
    optimizer = build_optimizer(config(backend__implementation=implementation), 16)
    method = build_method(config(backend__implementation=implementation), 1)
    assert optimizer._update.__module__ == f"vectorized_ops.{kernels}.sgd"
    assert method.rule._kernel.__module__ == f"vectorized_ops.{kernels}.elastic"


def test_optimizer_takes_what_the_configuration_says():
    chosen = config(optimizer__momentum=0.5, optimizer__weight_decay=0.25)
    optimizer = build_optimizer(chosen, 16)
    parameters, gradient = np.ones(16, np.float32), np.ones(16, np.float32)
    optimizer.step(parameters, gradient, 0.1)
    optimizer.step(parameters, gradient, 0.1)
    first = 0.1 * (1 + 0.25)
    second = 0.5 * first + 0.1 * (1 + 0.25 * (1 - first))
    np.testing.assert_allclose(parameters, 1 - first - second, rtol=1e-6)


@pytest.mark.parametrize(("name", "expected"), [("torch", "TorchBackend"), ("cpu", "CpuBackend")])
def test_backend_is_the_one_that_is_named(name, expected):
    chosen = config(backend__name=name)
    backend = build_backend(chosen, build_network(chosen), 2, 1)
    assert type(backend).__name__ == expected
    backend.close()


def test_dataset_is_cut_as_configured():
    dataset = build_dataset(config())
    assert (len(dataset.train), len(dataset.test)) == (32, 20)


def test_mnist_needs_its_folder(tmp_path):
    with pytest.raises(ConfigError, match=r"data.root is missing"):
        build_dataset(config(data__name="mnist", data__train_images=None))
    from knltrain.errors import DataError

    with pytest.raises(DataError, match=str(tmp_path)):
        build_dataset(config(data__name="mnist", data__root=str(tmp_path)))


def test_worker_alone_needs_no_segment():
    transport = build_transport(config(), None, 0)
    assert isinstance(transport, Loopback)
    assert transport.local.size == network_size(config())


def test_several_workers_meet_in_the_segment():
    segment = Segment.create(network_size(config()), 2, "memfd")
    transport = build_transport(config(), segment, 1)
    assert isinstance(transport, NodeShared)
    assert (transport.rank, transport.workers) == (1, 2)
    transport.close()


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        (Network("small", (8, 8, 1), (Dense("out", 10),)), r"\(28, 28, 1\).*takes \(8, 8, 1\)"),
        (Network("few", (28, 28, 1), (Dense("out", 3),)), r"10 classes.*outputs \(3,\)"),
    ],
)
def test_network_that_does_not_fit_the_data_is_refused(tmp_path, monkeypatch, network, expected):
    monkeypatch.setitem(build.NETWORKS, "lenet", lambda: network)
    with pytest.raises(ConfigError, match=expected):
        make_worker(config(), tmp_path)


def test_whole_run_leaves_a_complete_run_folder(tmp_path):
    run(config(evaluation__every_epochs=1.0), tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert {"result.json", "metrics-0.jsonl", "checkpoint-5"} < names
    assert len([name for name in names if name.startswith("events.out.tfevents")]) == 1
    assert len(names) == 4
    result = json.loads((tmp_path / "result.json").read_text())
    facts = {
        "network": "lenet",
        "data": "digits",
        "method": "sync_easgd",
        "backend": "torch",
        "workers": 1,
        "threads": 1,
        "batch": 16,
        "epochs": None,
        "seed": 1,
        "steps": 5,
        "test_images": 20,
    }
    assert facts.items() <= result.items()
    assert 0 <= result["test_accuracy"] <= 1
    assert result["images_per_second"] == pytest.approx(5 * 16 / result["train_seconds"])
    records = read_metrics(tmp_path / "metrics-0.jsonl")
    assert [each["step"] for each in records if each["kind"] == "test"] == [2, 4, 5]
    assert {each["step"] for each in records if each["kind"] == "train"} >= {1, 5}
    draw_curves(tmp_path)
    assert f"{100 * result['test_accuracy']:.2f} % of 20 images" in summary(tmp_path)


@pytest.mark.parametrize(("batch", "largest"), [(256, 16), (3, 3)])
def test_evaluation_takes_no_more_images_at_once_than_the_backend(
    tmp_path, monkeypatch, batch, largest
):
    sizes = []
    with make_worker(config(evaluation__batch=batch), tmp_path) as worker:
        evaluate = worker.backend.evaluate

        def recording(images, parameters):
            sizes.append(len(images.labels))
            return evaluate(images, parameters)

        monkeypatch.setattr(worker.backend, "evaluate", recording)
        worker.run()
    assert max(sizes) == largest


def test_epochs_are_as_many_steps_as_fit_into_them(tmp_path):
    with make_worker(config(train__steps=None, train__epochs=3), tmp_path) as worker:
        assert worker.total_steps == 3 * 2


def test_learning_rate_follows_the_policy(tmp_path):
    with make_worker(config(), tmp_path) as worker:
        assert worker.learning_rate(0) == 0.01
        assert worker.learning_rate(4) == pytest.approx(0.01 * 1.4**-0.75)


@pytest.mark.parametrize("method", METHODS)
def test_same_seed_gives_the_same_bits(tmp_path, method):
    chosen = config(exchange__method=method, train__steps=3, evaluation__every_epochs=0.0)
    results = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        results.append(run(chosen, tmp_path / name))
    for first, second in zip(*results, strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("method", METHODS)
def test_resumed_run_ends_with_the_bits_of_one_that_never_stopped(tmp_path, method):
    chosen = config(exchange__method=method, checkpoint__every_epochs=1.0, checkpoint__keep=9)
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    whole.mkdir()
    stopped.mkdir()
    expected = run(chosen, whole)
    with pytest.raises(KeyboardInterrupt):
        run(chosen, stopped, observers=[StopsAfter(3)])
    assert latest_checkpoint(stopped).name == "checkpoint-2"
    for found, wanted in zip(run(chosen, stopped, resume=True), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    network = build_network(chosen)
    for step in (4, 5):
        centers = [
            load_checkpoint(folder / f"checkpoint-{step}", network).center.packed
            for folder in (whole, stopped)
        ]
        np.testing.assert_array_equal(*centers)
    records = read_metrics(stopped / "metrics-0.jsonl")
    for kind in ("train", "test"):
        steps = [each["step"] for each in records if each["kind"] == kind]
        assert steps == sorted(set(steps))
    results = [json.loads((folder / "result.json").read_text()) for folder in (whole, stopped)]
    assert results[0]["test_accuracy"] == results[1]["test_accuracy"]
    assert results[0]["test_loss"] == results[1]["test_loss"]


def test_resuming_a_finished_run_keeps_its_result(tmp_path):
    run(config(), tmp_path)
    before = json.loads((tmp_path / "result.json").read_text())
    run(config(), tmp_path, resume=True)
    after = json.loads((tmp_path / "result.json").read_text())
    assert after == before


def test_finished_run_can_be_made_longer(tmp_path):
    run(config(train__steps=3), tmp_path)
    run(config(train__steps=4), tmp_path, resume=True)
    records = read_metrics(tmp_path / "metrics-0.jsonl")
    assert [each["step"] for each in records if each["kind"] == "test"] == [2, 3, 4]
    assert json.loads((tmp_path / "result.json").read_text())["steps"] == 4


def test_resumed_run_cannot_end_before_its_checkpoint(tmp_path):
    run(config(train__steps=3), tmp_path)
    with pytest.raises(ConfigError, match=r"end after 2 steps.* at step 3: raise train"):
        make_worker(config(train__steps=2), tmp_path, resume=True)


def test_run_without_checkpoint_cannot_be_resumed(tmp_path):
    with pytest.raises(CheckpointError, match=r"no checkpoint to resume from"):
        make_worker(config(), tmp_path, resume=True)
