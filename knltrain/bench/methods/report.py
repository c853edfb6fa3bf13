"""Results of the runs: medians over the rounds, and ratios within them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from knltrain.bench.methods.entrants import ALONE, Entrant, Scaling, learning_of
from knltrain.bench.methods.one_run import RunFigures
from knltrain.bench.methods.task import Task
from knltrain.clocks import BESIDES, COSTS

ORIGINAL = "original_easgd"
"""The baseline of the paper."""

Runs = Mapping[str, Sequence[RunFigures]]
"""By the name of the entrant, one for each round."""

NOTHING: Mapping[str, float] = {}


def rows(
    everyone: Sequence[Entrant],
    runs: Runs,
    task: Task,
    accuracy: float,
    scaling: Scaling = "strong",
    foreseen: Mapping[str, float] = NOTHING,
    moved: Mapping[str, float] = NOTHING,
) -> list[dict[str, Any]]:
    """A row for each entrant; `foreseen` are predicted seconds of a step, by its name.

    `moved` are bytes of a step, likewise.

    - `seconds_to_accuracy` is the training time until the first evaluation with that accuracy,
      without evaluations and the meetings before them; the median is None where half of the rounds
      never reached it.
    - `clocks_share` is the share of a worker's wall clock that the classes of cost have without the
      rest, of the worker where it is farthest from 1.
    - `processor_seconds` are those of all workers in a step. `communication_processor_seconds` are
      what of these `none` with as many workers did not need, which waits and moves nothing: medians
      over the rounds; None without it.
    - `moved_bytes` are what all workers move over the segment in a step, by the method's formula.
    - `faster_than_one` and `faster_than_original` are medians of the ratios of that time.
    - `predicted_images_per_second` is that of a step that was foreseen, or None.
    - A row with a `failure` has nothing else.
    """
    return [
        _row(each, everyone, runs, task, accuracy, scaling, foreseen)
        | {"moved_bytes": moved.get(each.name)}
        for each in everyone
    ]


def _row(
    entrant: Entrant,
    everyone: Sequence[Entrant],
    runs: Runs,
    task: Task,
    accuracy: float,
    scaling: Scaling,
    foreseen: Mapping[str, float],
) -> dict[str, Any]:
    found = runs[entrant.name]
    settings, learning = task.settings[entrant.method], learning_of(entrant, task, scaling)
    idle = next(
        (each for each in everyone if (each.method, each.workers) == ("none", entrant.workers)),
        None,
    )
    head = {
        "entrant": entrant.name,
        "method": entrant.method,
        "workers": entrant.workers,
        "batch": learning.batch,
        "settings": {
            "learning_rate": learning.rate,
            "warmup_epochs": learning.warmup_epochs,
            **{f"exchange.{key}": value for key, value in settings.exchange.items()},
            **{f"optimizer.{key}": value for key, value in settings.optimizer.items()},
        },
        "why": settings.why,
        "failure": next((each.failure for each in found if each.failure), None),
    }
    if head["failure"]:
        return head
    seconds = foreseen.get(entrant.name)
    predicted = None if seconds is None else learning.batch / seconds
    figures = _figures(entrant.name, runs, accuracy)
    more = None if idle is None else _more_processor_seconds(found, runs[idle.name])
    return {
        **head,
        **figures,
        "communication_processor_seconds": more,
        "predicted_images_per_second": predicted,
    }


def _figures(name: str, runs: Runs, accuracy: float) -> dict[str, Any]:
    found = runs[name]
    results = [each.result for each in found]
    accuracies = [float(result["test_accuracy"]) for result in results]
    seconds = [_reached(each, accuracy, "seconds") for each in found]
    return {
        "threads": results[0]["threads"],
        "accuracy": statistics.median(accuracies),
        "least_accuracy": min(accuracies),
        "rounds_with_accuracy": sum(map(math.isfinite, seconds)),
        "seconds_to_accuracy": _finite(statistics.median(seconds)),
        "epochs_to_accuracy": _finite(
            statistics.median(_reached(each, accuracy, "epoch") for each in found)
        ),
        "faster_than_one": _faster(name, ALONE, runs, accuracy),
        "faster_than_original": _faster(name, ORIGINAL, runs, accuracy),
        **{
            key: statistics.median(result[key] for result in results)
            for key in ("images_per_second", "train_seconds", "communication_share")
        },
        "cost_seconds": {
            cost: statistics.median(result["cost_seconds"][cost] for result in results)
            for cost in (*COSTS, *BESIDES)
        },
        "clocks_share": statistics.median(
            max(result["worker_clocks_shares"], key=lambda share: abs(1 - share))
            for result in results
        ),
        "processor_seconds": statistics.median(map(_processor_seconds, results)),
        "curves": [
            {key: [each[key] for each in one.tests] for key in ("seconds", "epoch", "accuracy")}
            for one in found
        ],
    }


def _processor_seconds(result: Mapping[str, Any]) -> float:
    """Of all workers, in a step."""
    return float(sum(result["worker_processor_seconds"]) / max(result["steps"], 1))


def _more_processor_seconds(ours: Sequence[RunFigures], idle: Sequence[RunFigures]) -> float | None:
    """What a step needs more than one of workers that never meet."""
    if any(each.failure for each in idle):
        return None
    more = (
        _processor_seconds(own.result) - _processor_seconds(none.result)
        for own, none in zip(ours, idle, strict=True)
    )
    return float(statistics.median(more))


def _reached(found: RunFigures, accuracy: float, key: str) -> float:
    """The time at which it reached that accuracy; infinite if never."""
    first = found.first_with(accuracy)
    return math.inf if first is None else float(first[key])


def _faster(name: str, other: str, runs: Runs, accuracy: float) -> float | None:
    """How many times as fast as another, or None where one of them never reached the accuracy."""
    if other not in runs:
        return None
    both = [
        (_reached(ours, accuracy, "seconds"), _reached(theirs, accuracy, "seconds"))
        for ours, theirs in zip(runs[name], runs[other], strict=True)
    ]
    ratios = [theirs / ours for ours, theirs in both if math.isfinite(ours + theirs)]
    return statistics.median(ratios) if ratios else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
