"""Whole runs of one worker: the same bits every time, stopped and resumed or not."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from knltrain.assembly import names
from knltrain.assembly.whole_run import check_run, check_weights, starting_parameters
from knltrain.checkpoint.folders import latest_checkpoint
from knltrain.checkpoint.reader import load_checkpoint
from knltrain.clocks import BESIDES, COSTS
from knltrain.config.methods import METHODS
from knltrain.errors import CheckpointError, ConfigError
from knltrain.exchange import tree_exchange
from knltrain.exchange.transports.job_team import JobTeam
from knltrain.exchange.tree_exchange import TreeExchange
from knltrain.interchange.optimizer_file import OptimizerVectors, optimizer_file
from knltrain.metrics import read_metrics
from knltrain.network.layers import Dense
from knltrain.network.network import Network
from knltrain.network.parameters import ParameterVector
from knltrain.worker.observer import Observer
from knltrain.worker.termination import MEETING_SECONDS

OF_ONE = [name for name, facts in METHODS.items() if "group_size" not in facts.reads]

EACH_KIND = {"sync_easgd3", "easgd", "mdownpour", "slowmo", "streaming_diloco", "layerwise_sgd"}
"""A method of each way to exchange: these are tried always, the others by the slow tests."""

TWO_KINDS = {"sgd", "adam"}
"""Optimizers that are tried always, with one vector of their own or two."""


def by(word, choices, always):
    """A test for each of these choices."""
    return pytest.mark.parametrize(
        word,
        [
            pytest.param(choice, marks=() if choice in always else pytest.mark.slow)
            for choice in choices
        ],
    )


class StopsAfter(Observer):
    """Ends a run as a kill would, that is, by an error in the middle."""

    def __init__(self, step):
        self.step = step

    def step_done(self, worker, step, loss, learning_rate):
        if step == self.step:
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        (Network("small", (8, 8, 1), (Dense("out", 10),)), r"\(28, 28, 1\).*takes \(8, 8, 1\)"),
        (Network("few", (28, 28, 1), (Dense("out", 3),)), r"10 classes.*outputs \(3,\)"),
    ],
)
def test_network_that_does_not_fit_the_data_is_refused(
    config, make_worker, tmp_path, monkeypatch, network, expected
):
    monkeypatch.setitem(names.NETWORKS, "lenet", lambda: network)
    with pytest.raises(ConfigError, match=expected):
        make_worker(config(), tmp_path)


def test_epochs_are_as_many_steps_as_fit_into_them(config, make_worker, tmp_path):
    with make_worker(config(train__steps=None, train__epochs=3), tmp_path) as worker:
        assert worker.progress.total_steps == 3 * 2


def test_learning_rate_follows_the_policy(config, make_worker, tmp_path):
    with make_worker(config(), tmp_path) as worker:
        assert worker.learning_rate(0) == 0.01
        assert worker.learning_rate(4) == pytest.approx(0.01 * 1.4**-0.75)


@by("method", OF_ONE, EACH_KIND)
def test_same_seed_gives_the_same_bits(config, run, tmp_path, method):
    chosen = config(exchange__method=method, train__steps=3, evaluation__every_epochs=0.0)
    results = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        results.append(run(chosen, tmp_path / name))
    for first, second in zip(*results, strict=True):
        np.testing.assert_array_equal(first, second)


@by("method", OF_ONE, EACH_KIND)
def test_resumed_run_ends_with_the_bits_of_one_that_never_stopped(config, run, tmp_path, method):
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
    network = names.build_network(chosen)
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


def frozen_and_trained(config, run, folder, **changes):
    """Largest change of the frozen conv1, and of the rest, in locals and model of a short run."""
    chosen = config(
        network__frozen=["conv1"],
        train__steps=6,
        evaluation__every_epochs=0.0,
        **changes,
    )
    network = names.build_network(chosen)
    before = starting_parameters(chosen, network).packed
    size = next(spec.offset for spec in network.parameters if spec.layer != "conv1")
    assert size > 0
    parameters, model, *_ = run(chosen, folder)
    moved = [np.abs(each - before) for each in (parameters, model)]
    return max(each[:size].max() for each in moved), min(each[size:].max() for each in moved)


@by("method", OF_ONE, EACH_KIND)
def test_no_exchange_moves_frozen_layers(config, run, tmp_path, method):
    facts, options = METHODS[method], {}
    if "communication_period" in facts.exchange:
        options["exchange__communication_period"] = 4
    if "mixing" in facts.reads:
        options |= {"exchange__mixing": 0.3, "exchange__delay_steps": 0}
    frozen, trained = frozen_and_trained(config, run, tmp_path, exchange__method=method, **options)
    assert frozen == 0
    assert trained > 0


@by("method", [name for name in OF_ONE if name != "caffegpi"], EACH_KIND)
def test_every_method_takes_another_optimizer(config, run, tmp_path, method):
    chosen = {"train__steps": 1, "evaluation__every_epochs": 0.0, "optimizer__weight_decay": 0.0}
    found = []
    for name in ("adam", "adagrad"):
        folder = tmp_path / name
        folder.mkdir()
        settings = config(exchange__method=method, optimizer__name=name, **chosen)
        parameters, *_ = run(settings, folder)
        before = starting_parameters(settings, names.build_network(settings)).packed
        found.append(np.abs(parameters - before).max())
    # A first step is the rate, 0.01, in each value: less the elastic pull, or with the center's
    # momentum of `mdownpour` once more.
    assert all(0.007 < each < 0.021 for each in found)


@by("name", names.OPTIMIZERS, TWO_KINDS)
def test_no_optimizer_moves_frozen_layers(config, run, tmp_path, name):
    frozen, trained = frozen_and_trained(
        config,
        run,
        tmp_path,
        optimizer__name=name,
        optimizer__weight_decay=0.1,
        optimizer__clip_norm=0.5,
    )
    assert frozen == 0
    assert trained > 0


@pytest.mark.parametrize("method", ["sync_easgd3", "sync_sgd", "layerwise_sgd"])
def test_steps_of_several_batches_resume_to_the_bits_of_a_run_that_never_stopped(
    config, run, tmp_path, method
):
    chosen = config(
        exchange__method=method,
        train__batch=8,
        train__iter_size=2,
        train__steps=4,
        checkpoint__every_epochs=0.5,
        checkpoint__keep=9,
        evaluation__every_epochs=0.0,
    )
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    whole.mkdir()
    stopped.mkdir()
    expected = run(chosen, whole)
    with pytest.raises(KeyboardInterrupt):
        run(chosen, stopped, observers=[StopsAfter(3)])
    for found, wanted in zip(run(chosen, stopped, resume=True), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    records = read_metrics(whole / "metrics-0.jsonl")
    assert [each["epoch"] for each in records if each["kind"] == "train"][-1] == 2


@by("name", names.OPTIMIZERS, TWO_KINDS)
def test_resumed_optimizer_takes_the_steps_of_one_that_never_stopped(
    config, make_worker, tmp_path, name
):
    chosen = config(
        optimizer__name=name,
        optimizer__clip_norm=1.0,
        optimizer__weight_decay=0.1,
        checkpoint__every_epochs=1.0,
    )

    def results(folder, **options):
        with make_worker(chosen, folder, **options) as worker:
            worker.run()
            state = {each: values.copy() for each, values in worker.optimizer.state.items()}
            return {"parameters": worker.parameters.copy(), **state}

    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    whole.mkdir()
    stopped.mkdir()
    expected = results(whole)
    with pytest.raises(KeyboardInterrupt):
        results(stopped, observers=[StopsAfter(3)])
    found = results(stopped, resume=True)
    assert list(found) == list(expected)
    for each, values in expected.items():
        assert values.any(), each
        np.testing.assert_array_equal(found[each], values, err_msg=each)


def test_resuming_a_finished_run_keeps_its_result(config, run, tmp_path):
    run(config(), tmp_path)
    before = json.loads((tmp_path / "result.json").read_text())
    run(config(), tmp_path, resume=True)
    after = json.loads((tmp_path / "result.json").read_text())
    costs_after, costs_before = after.pop("cost_seconds"), before.pop("cost_seconds")
    (wall_after,), (wall_before,) = (each.pop("worker_wall_seconds") for each in (after, before))
    assert wall_after > wall_before
    assert before["worker_processor_seconds"][0] > 0
    for each in (after, before):
        assert 0 < each.pop("worker_clocks_shares")[0] <= 1
    assert after == before
    for name in ("reading", "set_up"):  # which were done again
        assert costs_after[name] > costs_before[name] > 0


def test_costs_of_a_run_add_up_to_its_time(config, run, tmp_path):
    """To its training time, of which the rest is what is left, and to a clock of its own."""
    run(config(), tmp_path)
    result = json.loads((tmp_path / "result.json").read_text())
    costs = result["cost_seconds"]
    assert tuple(costs) == COSTS + BESIDES
    assert min(costs.values()) >= 0
    parts = ("batch", "gradient", "update", "waiting", "moving", "center_update", "rest")
    assert sum(costs[name] for name in parts) == pytest.approx(result["train_seconds"])
    assert costs["gradient"] > 0
    (wall,) = result["worker_wall_seconds"]
    assert 0.5 * wall < sum(costs.values()) <= wall
    (share,) = result["worker_clocks_shares"]
    assert share * wall == pytest.approx(sum(costs.values()) - costs["rest"])


@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_run_goes_on_from_a_file_of_the_optimizers_state(config, run, tmp_path, name):
    """As the run that has made it: to the same bits."""
    options = {"optimizer__name": name, "exchange__method": "sync_sgd", "train__steps": 5}
    chosen = config(**options, checkpoint__every_steps=3, checkpoint__keep=9)
    network = names.build_network(chosen)
    (tmp_path / "whole").mkdir()
    expected = run(chosen, tmp_path / "whole")
    folder = tmp_path / "whole/checkpoint-3"
    with safe_open(folder / "worker-0.safetensors", "numpy") as file:
        vectors = {
            key.removeprefix("optimizer."): ParameterVector(network, file.get_tensor(key))
            for key in file.keys()  # noqa: SIM118
            if key.startswith("optimizer.") and "steps" not in key
        }
    state = tmp_path / "state.safetensors"
    state.write_bytes(optimizer_file(OptimizerVectors(name, vectors)))
    later = config(
        **options,
        train__first_step=3,
        train__optimizer_state=str(state),
        network__weights=str(folder / "center.safetensors"),
    )
    (tmp_path / "later").mkdir()
    for found, wanted in zip(run(later, tmp_path / "later"), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    steps = [each["step"] for each in read_metrics(tmp_path / "later/metrics-0.jsonl")]
    assert min(steps) > 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"network__weights": None}, "without weights: expected network.weights"),
        ({"optimizer__name": "adam"}, "is of optimizer .sgd.: expected that of optimizer.name"),
        ({"exchange__method": "caffegpi"}, "steps at one worker for all: expected another"),
    ],
)
def test_state_of_an_optimizer_that_does_not_fit_is_refused(config, tmp_path, options, message):
    network = names.build_network(config())
    state, weights = tmp_path / "state.safetensors", tmp_path / "a.safetensors"
    vectors = {"velocity": ParameterVector(network)}
    state.write_bytes(optimizer_file(OptimizerVectors("sgd", vectors)))
    save_file(vectors["velocity"].views, weights)
    given = {"network__weights": str(weights), "train__optimizer_state": str(state)}
    check_weights(config(exchange__method="sync_sgd", **given))
    with pytest.raises(ConfigError, match=message):
        check_weights(config(**{"exchange__method": "sync_sgd", **given, **options}))


def test_run_that_would_be_at_its_end_is_refused(config):
    with pytest.raises(ConfigError, match=r"train.first_step = 5: the run is to end after 5 steps"):
        check_run(config(workers=1, train__first_step=5))


def test_finished_run_can_be_made_longer(config, run, tmp_path):
    run(config(train__steps=3), tmp_path)
    run(config(train__steps=4), tmp_path, resume=True)
    records = read_metrics(tmp_path / "metrics-0.jsonl")
    assert [each["step"] for each in records if each["kind"] == "test"] == [2, 3, 4]
    assert json.loads((tmp_path / "result.json").read_text())["steps"] == 4


def test_resumed_run_cannot_end_before_its_checkpoint(config, make_worker, run, tmp_path):
    run(config(train__steps=3), tmp_path)
    with pytest.raises(ConfigError, match=r"end after 2 steps.* at step 3: raise train"):
        make_worker(config(train__steps=2), tmp_path, resume=True)


def test_run_without_checkpoint_cannot_be_resumed(config, make_worker, tmp_path):
    with pytest.raises(CheckpointError, match=r"no checkpoint to resume from"):
        make_worker(config(), tmp_path, resume=True)


@pytest.mark.ipex
def test_run_by_ipex_ends_where_the_eager_one_does(config, run, tmp_path):
    ends = []
    for engine in ("eager", "ipex"):
        (tmp_path / engine).mkdir()
        ends.append(run(config(backend__engine=engine), tmp_path / engine)[0])
    np.testing.assert_allclose(*ends, rtol=1e-3, atol=1e-5)


def test_workers_along_trees_make_their_exchange_when_all_have_read_their_images(
    config, make_worker, tmp_path, monkeypatch
):
    """That takes as long as it takes: exchanges have a limit of their own."""
    limits, made = [], []
    monkeypatch.setattr(JobTeam, "barrier", lambda _, limit=None: limits.append(limit))

    def make(*arguments, **options):
        made.append(list(limits))
        return TreeExchange(*arguments, **options)

    monkeypatch.setattr(tree_exchange, "TreeExchange", make)
    with make_worker(config(exchange__method="caffegpi"), tmp_path):
        assert made == [[MEETING_SECONDS]]
