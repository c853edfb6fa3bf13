"""The result of a run: its figures, the same at all workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from knltrain.clocks import COMMUNICATION
from knltrain.exchange.transports.team import Team
from knltrain.worker.view import WorkerView


@dataclass(frozen=True, slots=True)
class RunResult:
    """The figures of a finished run, the same for every worker; times are means over the workers.

    A run that was resumed counts the training time of all its parts.
    """

    steps: int
    """Steps of the run, as configured."""
    worker_steps: tuple[int, ...]
    """Steps of each worker, by rank; they differ with aligned termination."""
    test_accuracy: float | None
    test_top5_accuracy: float | None
    """Share of the images whose class is among the five most likely; None with no more classes."""
    test_class_accuracy: tuple[float | None, ...] | None
    """By class."""
    class_names: tuple[str, ...] | None
    """Of the classes, in the order of their numbers."""
    test_loss: float | None
    test_images: int | None
    images_per_second: float
    exchange_share: float
    data_share: float
    """Share of the training time in which workers had no batch yet: they filled it themselves, or
    waited for the data pool."""
    communication_share: float
    """Share of the training time: waiting for other workers, and moving parameters."""
    train_seconds: float
    background_seconds: float
    """Time of exchanges by a thread beside the computing ones; workers waited for a part of it."""
    cost_seconds: Mapping[str, float] = field(hash=False)
    """By the classes of `knltrain.clocks`, COSTS and BESIDES."""


def result_of(worker: WorkerView) -> RunResult:
    """The result of a run whose workers are all at its end (collective)."""
    clocks, found, progress = worker.clocks, worker.evaluation, worker.progress
    classes = found.classes if found else None
    train_seconds, share, data_share, beside = _means(
        worker.team,
        [
            clocks.train_seconds,
            clocks.exchange_share,
            clocks.data_share,
            clocks.beside.seconds,
        ],
    )
    costs = clocks.costs()
    costs = dict(zip(costs, _means(worker.team, list(costs.values())), strict=True))
    communication = sum(costs[name] for name in COMMUNICATION)
    return RunResult(
        steps=progress.step,
        worker_steps=progress.worker_steps,
        test_accuracy=found.accuracy if found else None,
        test_top5_accuracy=classes.top5_accuracy if classes else None,
        test_class_accuracy=classes.accuracies if classes else None,
        class_names=classes.names if classes else None,
        test_loss=found.loss if found else None,
        test_images=found.images if found else None,
        images_per_second=worker.images_done / train_seconds if train_seconds else 0.0,
        exchange_share=share,
        data_share=data_share,
        communication_share=communication / train_seconds if train_seconds else 0.0,
        train_seconds=train_seconds,
        background_seconds=beside,
        cost_seconds=costs,
    )


def _means(team: Team, values: Sequence[float]) -> list[float]:
    """Over the workers (collective)."""
    means: list[float] = (team.all_sum(np.array(values, np.float64)) / team.workers).tolist()
    return means
