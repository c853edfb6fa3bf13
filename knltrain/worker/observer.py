"""The seam for everything that acts between two steps without being one."""

# ruff: noqa: B024, B027 - an observer may leave any moment out

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import TYPE_CHECKING

from knltrain.evaluation import Evaluation

if TYPE_CHECKING:
    from knltrain.worker.loop import Worker


@dataclass(frozen=True, slots=True)
class RunResult:
    """The figures of a finished run, the same for every worker; times are means over the workers.

    A run that was resumed counts the training time of all its parts.
    """

    steps: int
    test_accuracy: float | None
    test_loss: float | None
    test_images: int | None
    images_per_second: float
    exchange_share: float
    train_seconds: float


class Observer(ABC):
    """Acts at the named moments of a worker's loop; does nothing where it is not overridden."""

    def started(self, worker: Worker) -> None:
        """Memory is set up and the workers are about to leave for the first step."""

    def step_done(self, worker: Worker, step: int, loss: float, learning_rate: float) -> None:
        """`step` steps are done; `loss` is the mean over this worker's part of the last batch."""

    def evaluated(self, worker: Worker, evaluation: Evaluation) -> None:
        """The model was evaluated after `worker.step` steps."""

    def diverged(self, step: int) -> None:
        """The loss of the model that `step` steps have led to is not finite; the run ends."""

    def finished(self, worker: Worker, result: RunResult) -> None:
        """All steps are done."""

    def close(self) -> None:
        """The worker is closed, after all steps or after an error."""
