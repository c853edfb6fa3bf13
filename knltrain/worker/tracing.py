"""Writes a trace of a worker's first steps."""

from __future__ import annotations

from pathlib import Path
from typing import final

from knltrain.files.durable import reason_of
from knltrain.trace import Trace
from knltrain.worker.observer import Observer, RunResult
from knltrain.worker.view import WorkerView

TRACED = ("batch", "gradient", "update", "exchange", "waiting", "center", "beside")
"""Clocks of a step. `beside` is an exchange, or one of its parts, by a thread of its own."""


@final
class TraceObserver(Observer):
    """Writes a trace of the parts of the next ``steps`` steps, see `knltrain.trace`."""

    def __init__(self, path: Path, rank: int, steps: int) -> None:
        self._path, self._left = path, steps
        self._trace: Trace | None = Trace(rank, f"worker {rank}")

    def started(self, worker: WorkerView) -> None:
        """Begin the trace."""
        if self._trace is not None:
            for name in TRACED:
                getattr(worker.clocks, name).watch = self._trace.of(name)

    def step_done(self, worker: WorkerView, step: int, loss: float, learning_rate: float) -> None:  # noqa: ARG002
        """Count the step, and end after the last one."""
        self._left -= 1
        if self._left == 0:
            self._end(worker)

    def asked(self, worker: WorkerView) -> None:
        """End the trace if the run stops before the last traced step."""
        if worker.stopped:
            self._end(worker)

    def finished(self, worker: WorkerView, result: RunResult) -> None:  # noqa: ARG002
        """End the trace of a shorter run."""
        self._end(worker)

    def _end(self, worker: WorkerView) -> None:
        trace, self._trace = self._trace, None
        if trace is not None:
            for name in TRACED:
                getattr(worker.clocks, name).watch = None
            try:
                trace.write(self._path)
            except OSError as error:
                worker.unwritten(self._path.name, f"it is missing ({reason_of(error)})")
