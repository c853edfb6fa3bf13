from __future__ import annotations

from collections.abc import Callable
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


LINK = {"emulated_link_gbits": 1.0, "emulated_latency_us": 10.0}
STEPS = 400


def planned(entrant: Entrant) -> RunConfig:
    return configuration(entrant, TASK, threads=1, seed=1)


def over_link(entrant: Entrant) -> RunConfig:
    return configuration(entrant, TASK, threads=1, seed=1, link=LINK)


def predicted(
    monkeypatch: pytest.MonkeyPatch,
    light: dict[str, float],
    *methods: str,
    computing: tuple[list[float], list[float]] = ([0.0], [0.0]),
    plan: Callable[[Entrant], RunConfig] = planned,
    steps: int = STEPS,
) -> tuple[dict[str, float], list[RunConfig]]:
    """By steps without exchanges of 10 ms and light ones of so many seconds.

    Those over a link have a name that ends in "+".
    """
    runs: list[RunConfig] = []

    def timed(config: RunConfig, _ground: Ground, folder: Path) -> Steps:
        assert not list(folder.iterdir())
        runs.append(config)
        name, is_light = config.exchange.method, config.train.batch == 2
        if config.exchange.emulated_link_gbits is not None:
            name += "+"
        if is_light and name not in light:
            raise PeerError("it diverged")
        return Steps(light[name] if is_light else 0.01, np.array(computing))

    monkeypatch.setattr(prediction, "steps_of", timed)
    everyone = entrants(methods, 2)
    return predicted_steps(everyone, plan, lambda _: steps, 1, lambda _line: None), runs


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


def test_computing_hides_time_on_a_link_as_far_as_the_method_overlaps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 8 ms, 1 ms is work. Light steps hide 1 ms of it, whole ones all but 0 or 2 ms."""
    light = {"none+": 0.001, "sync_easgd3": 0.002, "sync_easgd": 0.002}
    for on_link, exposed in ((0.007, 0.0), (0.012, 0.002)):
        over = {"sync_easgd3+": 0.002 + on_link - 0.001, "sync_easgd+": 0.002 + on_link}
        found, runs = predicted(
            monkeypatch, {**light, **over}, "sync_easgd3", "sync_easgd", plan=over_link
        )
        assert found["sync_easgd3"] == pytest.approx(0.01 + 0.001 + exposed)
        assert found["sync_easgd"] == pytest.approx(0.01 + 0.001 + on_link)
        without = [run for run in runs if run.exchange.emulated_link_gbits is None]
        assert [run.exchange.method for run in without] == ["sync_easgd3"]
        assert without[0].exchange.emulated_latency_us == 0


def test_a_fragment_is_hidden_by_the_steps_of_its_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four fragments in 40 steps are exchanged during 2 steps each: 2 ms of each step's 10."""
    light = {"none+": 0.0, "streaming_diloco": 0.0, "streaming_diloco+": 0.005}
    found, _ = predicted(monkeypatch, light, "streaming_diloco", plan=over_link)
    assert found == pytest.approx({"streaming_diloco": 0.01 + 0.005 - 0.002})


@pytest.mark.parametrize(("steps", "exchanges"), [(80, 80), (100, 100), (400, 175)])
def test_exchanges_of_first_steps_alone_count_for_these_alone(
    monkeypatch: pytest.MonkeyPatch, steps: int, exchanges: int
) -> None:
    """Each of the first 100 steps has one, then each fourth; all light ones have."""
    light = {"none": 0.001, "post_local_sgd": 0.005}
    found, runs = predicted(monkeypatch, light, "post_local_sgd", steps=steps)
    assert found == pytest.approx({"post_local_sgd": 0.01 + 0.004 * exchanges / steps})
    assert runs[-1].train.steps == 33  # whole periods after the first step
    slow = ([0.006] * 4, [0.01, 0.002, 0.01, 0.002])  # as fast in the mean over each period
    waited, _ = predicted(monkeypatch, light, "post_local_sgd", steps=steps, computing=slow)
    first = min(steps, 100) / steps
    assert waited["post_local_sgd"] - found["post_local_sgd"] == pytest.approx(0.002 * first)


def test_who_never_exchanges_only_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = predicted(monkeypatch, {"none": 0.001}, "none")
    assert found == {"none": 0.01}
