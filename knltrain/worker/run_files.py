"""Observers that write a worker's files in the run folder: plan, metrics and result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import final

from knltrain.confusion import CONFUSION, Confusion, confusion_to_csv
from knltrain.evaluation import Evaluation
from knltrain.exchange.transports.board import LossWindow
from knltrain.files.durable import RESULT, reason_of, write_whole
from knltrain.metrics import MetricsLog
from knltrain.worker.observer import Observer, RunResult
from knltrain.worker.view import WorkerView


@final
class MetricsObserver(Observer):
    """Writes steps and evaluations into the metrics log; of evaluations, rank 0 only."""

    def __init__(self, log: MetricsLog) -> None:
        self._log = log
        self._window: LossWindow | None = None

    def started(self, worker: WorkerView) -> None:
        """Begin to measure rates."""
        self._window = worker.run_loss.window()
        self._log.start(worker.clocks, worker.images_done)

    def step_done(self, worker: WorkerView, step: int, loss: float, learning_rate: float) -> None:
        """Count the step."""
        assert self._window is not None
        self._log.step_done(
            step,
            loss,
            learning_rate,
            worker.clocks,
            run_loss=self._window.mean,
            images=worker.images_done,
            last=worker.progress.ended,
        )
        self._tell(worker)

    def evaluated(self, worker: WorkerView, evaluation: Evaluation) -> None:
        """Write the evaluation, which is the same for all workers."""
        if worker.team.rank == 0:
            found = evaluation
            self._log.evaluated(
                worker.progress.step, found.accuracy, found.loss, found.images, worker.clocks
            )
            self._tell(worker)

    def finished(self, worker: WorkerView, result: RunResult) -> None:  # noqa: ARG002
        """Try again to write what could not be written before."""
        self._log.write_out()
        self._tell(worker)

    def close(self) -> None:
        """Close the log."""
        self._log.close()

    def _tell(self, worker: WorkerView) -> None:
        for name, lacks in self._log.lacking().items():
            worker.unwritten(name, lacks)


@final
class PlanObserver(Observer):
    """Rank 0 writes `plan.json`: the decisions that its backend made when it was built, if any."""

    def __init__(self, run_folder: Path) -> None:
        self._path = run_folder / "plan.json"

    def started(self, worker: WorkerView) -> None:
        """Write the file."""
        self._write(worker)

    def finished(self, worker: WorkerView, result: RunResult) -> None:  # noqa: ARG002
        """Write it again if it is missing."""
        if not self._path.exists():
            self._write(worker)

    def _write(self, worker: WorkerView) -> None:
        decided = worker.backend.description
        if worker.team.rank == 0 and decided:
            write_if_possible(worker, self._path, dict(decided))


@final
class ResultObserver(Observer):
    """Rank 0 writes `result.json`: the figures of the run, and `facts` about how it was made.

    And `confusion.csv`, where the classes are few.
    """

    def __init__(self, run_folder: Path, facts: Mapping[str, str | int | None]) -> None:
        self._path = run_folder / RESULT
        self._facts = dict(facts)

    def finished(self, worker: WorkerView, result: RunResult) -> None:
        """Write the files."""
        if worker.team.rank != 0:
            return
        classes = worker.evaluation.classes if worker.evaluation else None
        if classes is not None and classes.confusion is not None:
            table = confusion_to_csv(Confusion(classes.confusion, classes.names))
            _write_text(worker, self._path.with_name(CONFUSION), table)
        write_if_possible(worker, self._path, {**self._facts, **asdict(result)})


def write_if_possible(worker: WorkerView, path: Path, fields: dict[str, object]) -> None:
    """Write a file of JSON whole, or report through the worker that it is missing."""
    _write_text(worker, path, json.dumps(fields, indent=2, allow_nan=False) + "\n")


def _write_text(worker: WorkerView, path: Path, text: str) -> None:
    try:
        write_whole(path, text)
    except OSError as error:
        worker.unwritten(path.name, f"it is missing ({reason_of(error)})")
    else:
        worker.unwritten(path.name, "")
