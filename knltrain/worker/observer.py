"""The interface of observers: called at named moments of the loop, mostly between two steps."""

# ruff: noqa: B024, B027 - an observer may leave any moment out

from __future__ import annotations

from abc import ABC
from typing import TYPE_CHECKING

from knltrain.evaluation import Evaluation
from knltrain.worker.result import RunResult
from knltrain.worker.view import WorkerView

if TYPE_CHECKING:
    from vectorized_ops.numba.compiling.all_cores import Progress


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
