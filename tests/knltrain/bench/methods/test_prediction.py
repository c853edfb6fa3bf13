from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from knltrain.bench.methods import prediction
from knltrain.bench.methods.entrants import Entrant, configuration, entrants
from knltrain.bench.methods.prediction import predicted_steps
from knltrain.bench.methods.task import task_named
from knltrain.bench.predict.steps import Ground, Steps
from knltrain.bench.step.peer_process import PeerError
from knltrain.config import RunConfig

TASK = task_named("lenet", None)


def planned(entrant: Entrant) -> RunConfig:
    return configuration(entrant, TASK, threads=1, seed=1)


def predicted(
    monkeypatch: pytest.MonkeyPatch,
    light: dict[str, float],
    *methods: str,
    computing: tuple[list[float], list[float]] = ([0.0], [0.0]),
) -> tuple[dict[str, float], list[RunConfig]]:
    """By steps without exchanges of 10 ms and light ones of so many seconds."""
    runs: list[RunConfig] = []

    def timed(config: RunConfig, _ground: Ground, folder: Path) -> Steps:
        assert not list(folder.iterdir())
        runs.append(config)
        name, is_light = config.exchange.method, config.train.batch == 2
        if is_light and name not in light:
            raise PeerError("it diverged")
        return Steps(light[name] if is_light else 0.01, np.array(computing))

    monkeypatch.setattr(prediction, "steps_of", timed)
    return predicted_steps(entrants(methods, 2), planned, 1, lambda _line: None), runs


def test_a_step_is_computing_and_what_an_exchange_adds_to_a_light_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    light = {"none": 0.001, "sync_sgd": 0.004, "seasgd": 0.002}
    found, runs = predicted(monkeypatch, light, "sync_sgd", "seasgd", "downpour")
    assert found == pytest.approx({"sync_sgd": 0.013, "seasgd": 0.011})  # the other one failed
    first = runs[0]
    assert (first.exchange.method, first.train.batch, first.workers) == ("none", 64, 2)
    assert first.train.trace_steps == first.train.steps
    assert all(run.learning_rate.base < 1e-5 for run in runs)
    assert not any(run.evaluation.at_end or run.checkpoint.at_end for run in runs)


def test_who_meets_waits_for_the_slowest(monkeypatch: pytest.MonkeyPatch) -> None:
    light = {"none": 0.001, "sync_sgd": 0.001, "seasgd": 0.001}
    found, _ = predicted(
        monkeypatch, light, "sync_sgd", "seasgd", computing=([0.006] * 4, [0.01] * 4)
    )
    assert found == pytest.approx({"sync_sgd": 0.012, "seasgd": 0.01})


def test_a_long_period_is_timed_more_than_once(monkeypatch: pytest.MonkeyPatch) -> None:
    _, runs = predicted(monkeypatch, {"none": 0.001, "diloco": 0.001}, "diloco")
    period = runs[-1].exchange.communication_period
    assert period is not None
    assert runs[-1].train.steps is not None
    assert runs[-1].train.steps > 2 * period


def test_without_steps_that_only_compute_nothing_is_predicted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(PeerError, match="diverged"):
        predicted(monkeypatch, {"sync_sgd": 0.001}, "sync_sgd")


def test_one_worker_alone_has_no_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    assert predicted(monkeypatch, {}, "asgd") == ({}, [])
