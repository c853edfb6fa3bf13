"""A report as two rounds of three entrants would come to."""

from __future__ import annotations

from typing import Any

import pytest

from knltrain.bench.methods.entrants import entrants
from knltrain.bench.methods.one_run import RunFigures
from knltrain.bench.methods.report import rows
from knltrain.bench.methods.task import task_named
from knltrain.clocks import BESIDES, COSTS


def found(seconds_and_accuracies: list[tuple[float, float]], waiting: float = 1.0) -> RunFigures:
    """A run with an evaluation after each of these times, half an epoch apart."""
    last_seconds, last_accuracy = seconds_and_accuracies[-1]
    result = {
        "threads": 1,
        "test_accuracy": last_accuracy,
        "images_per_second": 1000 / last_seconds,
        "train_seconds": last_seconds,
        "communication_share": (waiting + 1.0) / last_seconds,
        "cost_seconds": {**dict.fromkeys((*COSTS, *BESIDES), 1.0), "waiting": waiting},
        "steps": 10,
        "worker_processor_seconds": [last_seconds, 2 * last_seconds],
        "worker_clocks_shares": [0.99, 0.9 + 0.08 * (waiting == 1.0)],
    }
    tests = [
        {"seconds": seconds, "epoch": 0.5 * (place + 1), "accuracy": accuracy}
        for place, (seconds, accuracy) in enumerate(seconds_and_accuracies)
    ]
    return RunFigures(result, tuple(tests))


@pytest.fixture
def runs() -> dict[str, list[RunFigures]]:
    return {
        "one worker": [found([(10.0, 0.8), (20.0, 0.97)]), found([(10.0, 0.96), (30.0, 0.98)])],
        "sync_easgd": [found([(4.0, 0.7), (8.0, 0.98)], 2.0), found([(5.0, 0.98), (10.0, 0.99)])],
        "original_easgd": [found([(16.0, 0.99)]), found([(15.0, 0.9), (40.0, 0.96)])],
        "async_sgd": [RunFigures({}, (), "worker 1 failed: step 7"), found([(1.0, 0.99)])],
    }


@pytest.fixture
def report(runs: dict[str, list[RunFigures]]) -> dict[str, Any]:
    task = task_named("lenet", None)
    everyone = entrants(["sync_easgd", "original_easgd", "async_sgd"], workers=2)
    return {
        "machine": {"model": "a processor"},
        "network": "lenet",
        "data": dict(task.data),
        "batch": 64,
        "scaling": "strong",
        "epochs": 1,
        "workers": 2,
        "rounds": 2,
        "asked_accuracy": 0.97,
        "emulated_link": None,
        "rows": rows(
            everyone, runs, task, 0.97, "strong", {"sync_easgd": 0.5}, {"sync_easgd": 2**19}
        ),
    }
