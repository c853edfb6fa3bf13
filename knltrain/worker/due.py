"""What a worker does every so many steps: measure its model, and keep it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from knltrain.checkpoint import CheckpointWriter
from knltrain.evaluation import Evaluator
from knltrain.worker.loop import Worker
from knltrain.worker.observer import Observer


@dataclass(frozen=True, slots=True)
class DueSteps:
    """After which steps something is done: every `period` steps, and after the last one.

    A `period` of 0 means only after the last one; it need not be whole, as when something is
    done ten times per epoch of 48 steps.
    """

    period: float
    total_steps: int

    def __contains__(self, step: int) -> bool:
        if step == self.total_steps:
            return True
        return self.period > 0 and step // self.period > (step - 1) // self.period


@final
class Evaluates(Observer):
    """Evaluates the worker's model when it is due."""

    def __init__(self, evaluator: Evaluator, due: DueSteps) -> None:
        self._evaluator = evaluator
        self._due = due

    def started(self, worker: Worker) -> None:
        """Evaluate now where no step is left to do it after."""
        if worker.step == worker.total_steps:
            worker.evaluation = self._evaluator.evaluate(worker.model, worker.step)

    def step_done(self, worker: Worker, step: int, *_: float) -> None:
        """Evaluate after the steps that are due."""
        if step in self._due:
            with worker.clocks.evaluation:
                found = self._evaluator.evaluate(worker.model, step)
            worker.evaluated(found)


@final
class KeepsCheckpoints(Observer):
    """Writes a checkpoint when one is due.

    Comes after `Evaluates` among a worker's observers, so that no model is kept that was just
    found to give no finite loss.
    """

    def __init__(self, writer: CheckpointWriter, due: DueSteps) -> None:
        self._writer = writer
        self._due = due

    def step_done(self, worker: Worker, step: int, *_: float) -> None:
        """Save after the steps that are due."""
        if step in self._due:
            with worker.clocks.checkpoint:
                self._writer.save(worker.state())

    def diverged(self, step: int) -> None:
        """Leave no checkpoint that holds the very model whose loss is not finite."""
        self._writer.set_aside(step)
