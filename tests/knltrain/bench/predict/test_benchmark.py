"""Steps predicted and measured: by real trainings of a node, and of hosts."""

from __future__ import annotations

import json
import statistics
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from knltrain.bench.predict import benchmark, running
from knltrain.bench.predict.benchmark import run_predict_benchmark
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


SPEEDS = {0.5: 0.06, 1.0: 0.125, 2.0: 0.25, 10.0: 1.1, 40.0: 1.2}
"""GB/s by Gbit/s."""
FITTED = [0.5, 2.0, 40.0]


def _times(light: float, whole: float, on_link: float = 0.0) -> benchmark._Times:
    """Two rounds of so many ms a step, and ms / (GB/s) on the link, but not on the fastest."""
    added = {each: on_link / SPEEDS[each] if each < 40 else 0.0 for each in SPEEDS}
    of_light = {each: [1e-3 * (light + added[each])] * 2 for each in FITTED}
    of_whole = {each: [1e-3 * (whole + added[each])] * 2 for each in (40.0, 1.0, 10.0)}
    return benchmark._Times(of_light, of_whole, np.array([[]]))


def _row(own: benchmark._Times, base: benchmark._Times, link: float = 1.0) -> dict[str, Any]:
    run = benchmark.Trainings("lenet", 2, 2, 32, 64).run("sync_sgd")
    return benchmark._row(link, SPEEDS, own, base, FITTED, run)


def test_what_whole_trainings_take_over_the_fastest_link_counts_for_other_links() -> None:
    """1 ms beside the link, which light trainings take for 3 ms, and 8 ms / (GB/s) on it."""
    row = _row(_times(2.0 + 3.0, 4.0 + 1.0, 8.0), _times(2.0, 4.0))
    assert row["computing_seconds"] == pytest.approx(0.004)
    assert row["least_exchange_seconds"] == pytest.approx(0.001)
    assert row["predicted_seconds"] == pytest.approx(0.004 + 0.001 + 0.008 / 0.125)
    assert (row["waiting_seconds"], row["error"]) == (0.0, pytest.approx(0.0))


@pytest.mark.parametrize(("of_rounds", "is_met"), [((3.0, 3.1), False), ((3.0, 3.8), True)])
def test_errors_are_met_within_a_tenth_or_what_the_rounds_differ_by(
    of_rounds: tuple[float, float], is_met: bool
) -> None:
    """4 ms are predicted."""
    own = _times(2.0, 4.0)
    measured = replace(own, whole={**own.whole, 1.0: [1e-3 * each for each in of_rounds]})
    row = _row(measured, _times(2.0, 4.0))
    assert row["predicted_seconds"] == pytest.approx(0.004)
    assert row["measured_seconds"] == pytest.approx(1e-3 * statistics.mean(of_rounds))
    assert row["is_met"] == is_met


@pytest.mark.slow
@pytest.mark.usefixtures("two_cores")
def test_workers_of_a_node_are_predicted_without_a_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "LEAST_SECONDS", 0.2)
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
