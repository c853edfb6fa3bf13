"""Steps predicted and measured: by real trainings of a node, and of hosts."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from knltrain.bench.predict import benchmark
from knltrain.bench.predict.benchmark import run_predict_benchmark
from knltrain.bench.predict.steps import Steps, method_of
from knltrain.bench.predict.table import format_table
from knltrain.errors import ConfigError

from ...hosts import hosts_or_skip

SHORT: dict[str, Any] = {"batch": 8, "steps": 16, "rounds": 1}
LINKS: dict[str, Any] = {"gbits": [10.0], "fitted_gbits": [2.5, 5.0]}


def _refused(expected: str, **more: Any) -> None:
    options = {"methods": ["sync_sgd"], "nodes": 2, "workers": 2, **SHORT, **LINKS, **more}
    with pytest.raises(ConfigError, match=expected):
        run_predict_benchmark("lenet", **options)


@pytest.mark.usefixtures("two_cores")
def test_settings_that_predict_nothing_are_refused_before_anything_is_measured() -> None:
    _refused("--fit-link-gbits: expected two speeds", fitted_gbits=[5.0, 5.0])
    _refused("--link-gbits: expected numbers above 0", gbits=[0.0])
    _refused("--link-gbits: expected numbers above 0", gbits=[float("nan")])
    _refused("5 Gbit/s in --link-gbits and in --fit-link-gbits", gbits=[1.0, 5.0])
    _refused("expected workers = 1", methods=["asgd"])
    _refused("did you mean 'sync_sgd'", methods=["sync_sgt"])
    _refused("--nodes 4096: .*larger --workers-per-core", nodes=4096)
    _refused("--workers 4096: ", nodes=1, workers=4096)


def _measured(**milliseconds: float) -> benchmark._Found:
    """Steps of one round, over a link of 1.25 GB/s."""
    steps = {name: [Steps(1e-3 * each, np.array([[]]))] for name, each in milliseconds.items()}
    return benchmark._Found(steps, [1.25])


def test_what_whole_trainings_take_over_the_fastest_link_counts_for_other_links() -> None:
    """1 ms beside the link, which light trainings take for 3 ms, and 8 ms / (GB/s) on it."""
    task = benchmark.Trainings("lenet", 2, 2, 32, 64)
    runs = {name: task.run(name) for name in ("none", "sync_sgd")}
    light = {gbits: _measured(none=2.0, sync_sgd=2.0 + 3.0 + added) for gbits, added in LIGHT}
    for (_, added), found in zip(LIGHT, light.values(), strict=True):
        found.speeds[:] = [8.0 / added] if added else [1e6]
    near = _measured(none=4.0, sync_sgd=5.0)
    exchange = benchmark._fitted(light, near, runs)["sync_sgd"]
    row = benchmark._row(
        10.0, _measured(none=4.0, sync_sgd=11.4), exchange, method_of(runs["sync_sgd"])
    )
    assert row["least_exchange_seconds"] == pytest.approx(0.001)
    assert row["predicted_seconds"] == pytest.approx(0.004 + 0.001 + 0.008 / 1.25)
    assert (row["waiting_seconds"], row["is_met"]) == (0.0, True)


LIGHT = ((1.0, 64.0), (2.0, 32.0), (40.0, 0.0))
"""Gbit/s, and milliseconds on the link."""


def test_steps_over_faster_links_are_more() -> None:
    task = benchmark.Trainings("lenet", 2, 2, 32, 64)
    links = (None, 0.5, 1.0, 2.0, 40.0)
    assert [task.steps_over(link) for link in links] == [64, 64, 64, 128, 256]
    assert task.run("none", 2.0).train.steps == 129


@pytest.mark.slow
@pytest.mark.usefixtures("two_cores")
def test_workers_of_a_node_are_predicted_without_a_link() -> None:
    told: list[str] = []
    report = run_predict_benchmark(
        "lenet", ["sync_easgd3"], nodes=1, workers=2, **SHORT, **LINKS, tell=told.append
    )
    assert json.loads(json.dumps(report)) == report
    (row,) = report["rows"]
    assert (row["method"], row["link_gbits"], row["overlaps"]) == ("sync_easgd3", None, True)
    assert row["predicted_seconds"] == pytest.approx(
        row["computing_seconds"] + row["waiting_seconds"] + row["exchange_seconds"]
    )
    assert row["error"] == pytest.approx(row["predicted_seconds"] / row["measured_seconds"] - 1)
    assert len(told) == 4
    assert "sync_easgd3" in format_table(report)


@pytest.mark.long
@pytest.mark.usefixtures("two_cores")
def test_methods_on_hosts_are_predicted_for_links_that_the_model_has_not_seen() -> None:
    with hosts_or_skip(2):
        """Where there can be none this test is skipped."""
    methods = ["sync_sgd", "asgd"]
    report = run_predict_benchmark("lenet", methods, nodes=2, workers=2, **SHORT, **LINKS)
    (row,) = report["rows"]
    assert (row["method"], row["link_gbits"]) == ("sync_sgd", 10.0)
    assert 0.3 < row["link_gbytes_per_second"] < 1.3
    assert list(report["failures"]) == ["asgd"]
    assert "asgd failed: " in format_table(report)


@pytest.mark.long
@pytest.mark.usefixtures("two_cores")
def test_four_hosts_share_two_cores() -> None:
    with hosts_or_skip(4):
        """Where there can be none this test is skipped."""
    more: dict[str, Any] = {"nodes": 4, "workers": 2, "workers_per_core": 2}
    report = run_predict_benchmark("lenet", ["sync_easgd3"], **more, **SHORT, **LINKS)
    (row,) = report["rows"]
    assert (report["workers"], report["workers_per_core"]) == (4, 2)
    assert row["predicted_seconds"] > 0
    assert "4 hosts with a worker each" in format_table(report)
