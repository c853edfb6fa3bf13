"""The interface of observers: called at named moments of the loop, mostly between two steps.

At the last one they are given the result of the run.
"""

# ruff: noqa: B024, B027 - an observer may leave any moment out

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from knltrain.clocks import COMMUNICATION
from knltrain.evaluation import Evaluation
from knltrain.exchange.transports.team import Team, of_all_workers
from knltrain.worker.view import WorkerView

if TYPE_CHECKING:
    from vectorized_ops.numba.compiling.journal import Progress


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
    worker_wall_seconds: tuple[float, ...]
    """By rank: from the making of a worker to here, by a clock apart from those of the classes; of
    all parts of a run that was resumed."""
    worker_clocks_shares: tuple[float, ...]
    """By rank: the share of that in which a class has gone on, the rest left out; over 1 only if
    something is counted twice."""
    worker_processor_seconds: tuple[float, ...]
    """By rank: of all threads of a worker's process, from its first step to its last, with what it
    did in between besides training."""


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
    walls, measured, processor = of_all_workers(
        worker.team, [clocks.wall_seconds, clocks.measured_seconds, clocks.processor_seconds]
    ).T.tolist()
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
        worker_wall_seconds=tuple(walls),
        worker_clocks_shares=tuple(
            own / wall if wall else 0.0 for own, wall in zip(measured, walls, strict=True)
        ),
        worker_processor_seconds=tuple(processor),
    )


def _means(team: Team, values: Sequence[float]) -> list[float]:
    """Over the workers (collective)."""
    means: list[float] = (team.all_sum(np.array(values, np.float64)) / team.workers).tolist()
    return means


class Observer(ABC):
    """Acts at the named moments of a worker's loop; each method does nothing unless overridden."""

    def compiling(self, progress: Progress) -> None:
        """A kernel was compiled for this worker, which is not built yet."""

    def started(self, worker: WorkerView) -> None:
        """Memory is allocated and the workers are about to begin the first step."""

    def step_done(self, worker: WorkerView, step: int, loss: float, learning_rate: float) -> None:
        """This worker has done `step` steps; `loss` is that of its part of the last batch."""

    def is_due(self, since: int, step: int) -> bool:  # noqa: ARG002
        """Whether this observer needs a meeting, where the last one was at step `since` of the run.

        `step` is the run's step now. The answer is the same for all workers, and stays true from
        some step on.
        """
        return False

    def met(self, worker: WorkerView) -> None:
        """All workers are at a meeting, and the run is at step `worker.progress.step`.

        All workers do the same here, and none takes a step meanwhile.
        """

    def asked(self, worker: WorkerView) -> None:
        """A checkpoint is requested, and all workers are at the meeting for it."""

    def kept(self, worker: WorkerView, seconds: float) -> None:
        """A checkpoint was written at step `worker.progress.step` of the run, in `seconds`."""

    def evaluated(self, worker: WorkerView, evaluation: Evaluation) -> None:
        """The model was evaluated at step `worker.progress.step` of the run."""

    def diverged(self, worker: WorkerView, step: int) -> None:
        """The loss is not finite after `step` steps; the run ends.

        `step` counts this worker's own steps, or the run's if an evaluation found the loss.
        """

    def unwritten(self, worker: WorkerView, what: str, lacks: str) -> None:
        """A file of the run folder, or its checkpoint, `lacks` something; "": it is whole again."""

    def finished(self, worker: WorkerView, result: RunResult) -> None:
        """All steps are done."""

    def close(self) -> None:
        """The worker is closed, after all steps or after an error."""
