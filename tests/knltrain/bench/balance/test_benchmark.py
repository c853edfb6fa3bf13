"""The bench of unequal workers: its runs, its report, and what it refuses."""

from __future__ import annotations

import json

import pytest

from knltrain.bench.balance import benchmark
from knltrain.bench.balance.benchmark import run_balance_benchmark
from knltrain.bench.balance.report import format_table
from knltrain.bench.methods.one_run import RunFigures
from knltrain.config import RunConfig
from knltrain.errors import ConfigError, KnltrainError

RATES = {"alone": 390.0, "equal": 200.0, "fitted": 490.0}


def carried_out(config: RunConfig) -> RunFigures:
    if config.exchange.method == "sync_sgd":
        way = "alone" if config.workers == 1 else str(config.balance.shares)
        return RunFigures({"images_per_second": RATES[way]}, ())
    reached = {"none": 0.2, "downpour": 0.1}[config.exchange.method]
    tests = ({"seconds": 5.0, "loss": 0.3}, {"seconds": 9.0, "loss": reached})
    return RunFigures({}, tests)


def test_a_report_has_rates_and_the_time_to_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[RunConfig] = []
    monkeypatch.setattr(
        benchmark, "carry_out", lambda config: seen.append(config) or carried_out(config)
    )
    found = json.loads(json.dumps(run_balance_benchmark((400, 100), 240, 20, 2)))
    assert [(row["way"], round(row["share_of_sum"], 3)) for row in found["rows"]] == [
        ("alone", 0.78),
        ("equal", 0.4),
        ("fitted", 0.98),
    ]
    assert found["increments"] == [
        {"method": "none", "seconds_to_loss": None},
        {"method": "downpour", "seconds_to_loss": 9.0},
    ]
    assert len(seen) == 2 * 5
    speeds = {each.balance.emulated_images_per_second for each in seen}
    assert speeds == {(400.0, 100.0), (400.0,)}
    told = format_table(found)
    assert "fitted shares                  490       0.980" in told
    assert "the fastest worker alone    never" in told


@pytest.mark.parametrize(
    ("speeds", "batch", "told"),
    [
        ((400,), 240, "--speeds 400: expected at least two"),
        ((400, 100), 241, "--batch 241: expected a multiple of the 2 workers"),
        ((400, 100), 2000, "at most the 1438 images"),
    ],
)
def test_settings_that_no_run_can_have_are_refused(
    speeds: tuple[float, ...], batch: int, told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        run_balance_benchmark(speeds, batch, 20, 1)


def test_a_run_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "carry_out", lambda _config: RunFigures({}, (), "no luck"))
    with pytest.raises(KnltrainError, match="the run 'alone' failed: no luck"):
        run_balance_benchmark((2, 1), 64, 5, 1)
