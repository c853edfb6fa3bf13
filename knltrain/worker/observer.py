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
    """Acts at the named moments of a worker's loop; does nothing where it is not overridden."""

    def compiling(self, progress: Progress) -> None:
        """A kernel was compiled for this worker, which is not built yet."""

    def started(self, worker: WorkerView) -> None:
        """Memory is set up and the workers are about to leave for the first step."""

    def step_done(self, worker: WorkerView, step: int, loss: float, learning_rate: float) -> None:
        """This worker has done `step` steps; `loss` is that of its part of the last batch."""

    def is_due(self, since: int, step: int) -> bool:  # noqa: ARG002
        """Whether all are to meet for this, where the run was at step `since` when they last did.

        `step` is where it is now. The same for all workers, and true from some step on.
        """
        return False

    def met(self, worker: WorkerView) -> None:
        """It is due, and all workers are here, the run being at step `worker.progress.step`.

        Whatever is done here is done by all of them, and none takes a step meanwhile.
        """

    def asked(self, worker: WorkerView) -> None:
        """All workers are asked for a checkpoint, and are here as when something is due."""

    def kept(self, worker: WorkerView, seconds: float) -> None:
        """A checkpoint was written at step `worker.progress.step` of the run; it took so long."""

    def evaluated(self, worker: WorkerView, evaluation: Evaluation) -> None:
        """The model was evaluated at step `worker.progress.step` of the run."""

    def diverged(self, worker: WorkerView, step: int) -> None:
        """The loss of the model that `step` steps have led to is not finite; the run ends.

        Those are this worker's own, or the run's if it was an evaluation that found it.
        """

    def unwritten(self, worker: WorkerView, what: str, lacks: str) -> None:
        """A file of the run folder, or its checkpoint, `lacks` something; if "", no more."""

    def finished(self, worker: WorkerView, result: RunResult) -> None:
        """All steps are done."""

    def close(self) -> None:
        """The worker is closed, after all steps or after an error."""
