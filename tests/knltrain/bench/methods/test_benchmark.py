"""Real runs: two methods on the digits, and every method on MNIST where that is."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from knltrain.bench.methods import benchmark
from knltrain.bench.methods.benchmark import run_methods_benchmark
from knltrain.bench.methods.entrants import configuration, entrants
from knltrain.bench.methods.one_run import RunFigures, carry_out
from knltrain.bench.methods.task import task_named
from knltrain.clocks import BESIDES, COSTS
from knltrain.config import RunConfig
from knltrain.config.methods import METHODS
from knltrain.errors import ConfigError
from knltrain.network.zoo.lenet import lenet

from ...marks import by_cost

MNIST = Path(__file__).parents[4].parent / "shared/data/mnist"


@pytest.mark.slow
def test_two_methods_on_the_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    told: list[str] = []
    report = run_methods_benchmark(
        "lenet",
        None,
        ["sync_easgd1", "original_easgd"],
        workers=2,
        rounds=1,
        epochs=2,
        accuracy=0.5,
        threads=1,
        predicts=True,
        tell=told.append,
    )
    assert told.pop(0) == "round 1 of 1 of short trainings, for predictions"
    rows = {row["entrant"]: row for row in report["rows"]}
    assert list(rows) == ["one worker", "sync_easgd1", "original_easgd"]
    assert [line.split(":")[0] for line in told] == [f"round 1 of 1, {name}" for name in rows]
    for name, row in rows.items():
        assert row["failure"] is None
        assert row["threads"] == 1
        assert row["accuracy"] > 0.5
        assert 0 < row["seconds_to_accuracy"] <= row["train_seconds"]
        assert len(row["curves"][0]["accuracy"]) == 8
        costs = row["cost_seconds"]
        assert tuple(costs) == (*COSTS, *BESIDES)
        parts = ("batch", "gradient", "update", "waiting", "moving", "center_update", "rest")
        assert sum(costs[part] for part in parts) == pytest.approx(row["train_seconds"])
        assert (costs["waiting"] > 0) == (name != "one worker")
        # of two workers: by a tree a vector goes up and down, and each one visits the center
        vectors = {"one worker": 0, "sync_easgd1": 2, "original_easgd": 4}[name]
        assert row["moved_bytes"] == vectors * 4 * lenet().packed_size
        assert row["processor_seconds"] > 0
        assert 0.3 < row["clocks_share"] <= 1  # by a clock apart from those that add up above
        shared = (costs["waiting"] + costs["moving"]) / row["train_seconds"]
        assert row["communication_share"] == pytest.approx(shared)
    assert rows["sync_easgd1"]["cost_seconds"]["center_update"] > 0
    assert rows["original_easgd"]["cost_seconds"]["center_update"] == 0
    assert rows["one worker"]["faster_than_one"] == 1.0
    assert rows["one worker"]["predicted_images_per_second"] is None
    assert rows["sync_easgd1"]["predicted_images_per_second"] > 0
    assert rows["original_easgd"]["predicted_images_per_second"] > 0
    assert not list(tmp_path.iterdir())


def test_who_cannot_train_so_is_known_before_anybody_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    carried_out: list[str] = []

    def carry_out(config: RunConfig) -> RunFigures:
        carried_out.append(config.exchange.method)
        return RunFigures({}, (), "nothing was done")

    monkeypatch.setattr(benchmark, "carry_out", carry_out)
    methods = ["streaming_diloco", "sync_easgd", "local_sgd"]
    report = run_methods_benchmark("googlenet", None, methods, 2, 2, epochs=1, scaling="weak")
    assert carried_out == ["none", "sync_easgd"] * 2
    refused = {row["entrant"]: row["failure"] for row in report["rows"]}
    for name, period in (("streaming_diloco", 8), ("local_sgd", 4)):
        assert f"exchange.communication_period = {period}: {name} would not" in refused[name]
    with pytest.raises(ConfigError, match="local_sgd would not exchange once in 2 steps"):
        run_methods_benchmark("googlenet", None, ["local_sgd"], 2, 1, epochs=1, scaling="weak")


def test_a_method_that_diverges_is_told_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from knltrain.bench.methods import one_run
    from knltrain.errors import WorkerFailed

    def fail(config, kept_fds):
        raise WorkerFailed(1, "step 7: not finite; last good checkpoint: none; log: gone")

    monkeypatch.setattr(one_run, "train", fail)
    report = run_methods_benchmark("lenet", None, ["sync_sgd"], workers=2, rounds=1)
    failures = [row["failure"] for row in report["rows"]]
    assert failures == ["worker 1 failed: step 7: not finite"] * 2


def test_an_accuracy_that_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"--accuracy 97\.0: expected a share above 0, at most 1"):
        run_methods_benchmark("lenet", None, ["sync_sgd"], workers=2, rounds=1, accuracy=97.0)


@pytest.mark.slow
def test_an_emulated_link_takes_its_time_and_changes_no_result() -> None:
    [_, entrant] = entrants(["original_easgd"], 2)
    task = replace(task_named("lenet", None), epochs=1)
    link = {"emulated_link_gbits": 1.0, "emulated_latency_us": 0.0}
    plain, slow = (
        carry_out(configuration(entrant, task, threads=1, seed=1, link=over)).result
        for over in (None, link)
    )
    assert slow["test_loss"] == plain["test_loss"]
    visit_seconds = 2 * 431_080 * 4 / (1e9 / 8)
    assert slow["cost_seconds"]["moving"] >= slow["steps"] * visit_seconds
    assert plain["cost_seconds"]["moving"] < slow["cost_seconds"]["moving"]


@pytest.mark.skipif(not MNIST.exists(), reason=f"no MNIST in {MNIST}")
@pytest.mark.parametrize("method", by_cost(METHODS, "sync_easgd3"))
def test_every_method_learns_mnist(method: str) -> None:
    [_, entrant] = entrants([method], 2)
    task = task_named("lenet", str(MNIST))
    found = carry_out(configuration(entrant, task, threads=1, seed=1))
    assert found.failure is None
    assert found.result["test_accuracy"] >= 0.97
