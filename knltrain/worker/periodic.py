"""Periodic work of a worker: evaluations and checkpoints."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final, final

from knltrain.checkpoint.writer import CheckpointWriter
from knltrain.errors import CheckpointError
from knltrain.evaluation import Evaluator
from knltrain.files.durable import CHECKPOINT
from knltrain.worker.observer import Observer
from knltrain.worker.view import WorkerView, state_of

LAST_PAUSES_SECONDS: Final = (1.0, 4.0)
"""Pauses before further tries to write the last model, the result of the run."""


@dataclass(frozen=True, slots=True)
class DueSteps:
    """The steps of a run after which something is done: every `period` steps, and `at_end`.

    A `period` of 0 means only after the last one, if at all. It need not be whole: ten times per
    epoch of 48 steps is a period of 4.8.
    """

    period: float
    total_steps: int
    at_end: bool = True

    def between(self, since: int, step: int) -> bool:
        """Whether a step after `since`, up to `step`, is among them."""
        if self.at_end and since < self.total_steps <= step:
            return True
        return self.period > 0 and step // self.period > since // self.period


@final
class EvaluationObserver(Observer):
    """Evaluates the worker's model when it is due; that at the run's end by class, too."""

    def __init__(self, evaluator: Evaluator, due: DueSteps) -> None:
        self._evaluator = evaluator
        self._due = due

    def started(self, worker: WorkerView) -> None:
        """Evaluate now if there is no step left after which to do it."""
        if worker.progress.ended and self._due.at_end:
            step = worker.progress.step
            worker.evaluation = self._evaluator.evaluate(worker.model, step, by_class=True)

    def is_due(self, since: int, step: int) -> bool:
        """After the steps that are due."""
        return self._due.between(since, step)

    def met(self, worker: WorkerView) -> None:
        """Evaluate; no worker moves the center meanwhile."""
        with worker.clocks.evaluation:
            progress = worker.progress
            found = self._evaluator.evaluate(worker.model, progress.step, by_class=progress.ended)
        worker.evaluated(found)


@final
class CheckpointObserver(Observer):
    """Writes a checkpoint when one is due, or requested.

    Comes after `EvaluationObserver` among a worker's observers, so that a model whose loss was just
    found not to be finite is not kept.
    """

    def __init__(self, writer: CheckpointWriter, due: DueSteps) -> None:
        self._writer = writer
        self._due = due
        self._kept_at: tuple[int, ...] | None = None

    def is_due(self, since: int, step: int) -> bool:
        """After the steps that are due."""
        return self._due.between(since, step)

    def met(self, worker: WorkerView) -> None:
        """Save, or go on without: the trained model is worth more than a checkpoint.

        The next checkpoint that is due is the next try; at the end of the run there are some more.
        """
        begun = time.monotonic()
        with worker.clocks.checkpoint:
            kept = self._save(worker)
            ends = worker.progress.ended or worker.stopped
            for pause in LAST_PAUSES_SECONDS if ends else ():
                if kept:
                    break
                time.sleep(pause)
                kept = self._save(worker)
        if kept:
            self._kept_at = worker.progress.worker_steps
            worker.kept(time.monotonic() - begun)

    def _save(self, worker: WorkerView) -> bool:
        """Save; return whether the checkpoint was written, the same at all workers."""
        try:
            self._writer.save(state_of(worker), worker.progress.step)
        except CheckpointError as error:
            if worker.team.rank == 0 or error.__cause__ is not None:
                worker.unwritten(CHECKPOINT, str(error))
            return False
        worker.unwritten(CHECKPOINT, "")
        return True

    def asked(self, worker: WorkerView) -> None:
        """Save, unless there is a checkpoint of these steps already."""
        if self._kept_at != worker.progress.worker_steps:
            self.met(worker)

    def diverged(self, worker: WorkerView, step: int) -> None:  # noqa: ARG002
        """Set aside a checkpoint that holds the model whose loss is not finite."""
        kept = worker.synchronisation.unmoved_since(worker.step)
        if kept is not None:
            self._writer.set_aside(kept)
