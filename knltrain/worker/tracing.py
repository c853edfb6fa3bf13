"""Writes a trace of a worker's first steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, final

from knltrain.backends.region import READY, Region
from knltrain.clocks import UNOBSERVED, VISIT
from knltrain.files.durable import reason_of
from knltrain.timeline import Timeline
from knltrain.trace import Trace
from knltrain.worker.observer import Observer, RunResult
from knltrain.worker.view import WorkerView

_MARKS: Final = 1 << 16

TRACED = ("batch", "gradient", "update", "exchange", "waiting", "center", "beside")
"""Clocks of a step. `beside` is an exchange, or one of its parts, by a thread of its own."""


@final
class TraceObserver(Observer):
    """Writes a trace of the parts of the next ``steps`` steps, see `knltrain.trace`."""

    def __init__(self, path: Path, rank: int, steps: int) -> None:
        self._path, self._left = path, steps
        self._trace: Trace | None = Trace(rank, f"worker {rank}")
        self._timeline = Timeline(_MARKS)
        self._notes: list[Callable[[float, float], None]] = []
        self._visits: list[tuple[Timeline, list[Callable[[float, float], None]]]] = []

    def started(self, worker: WorkerView) -> None:
        """Begin the trace."""
        if self._trace is not None:
            for name in TRACED:
                getattr(worker.clocks, name).watch = self._trace.of(name)
            self._notes = [
                self._trace.of(f"{each.name} {_direction(worker, each)}")
                for each in worker.backend.regions
            ]
            worker.backend.observe(self._timeline)
            if worker.strategy.marks_visits:
                self._visits = [
                    (Timeline(_MARKS), [self._trace.of(name, line) for name in VISIT])
                    for line in (None, "visits, beside")
                ]
                worker.strategy.observe(*(timeline for timeline, _ in self._visits))

    def step_done(self, worker: WorkerView, step: int, loss: float, learning_rate: float) -> None:  # noqa: ARG002
        """Count the step, and end after the last one."""
        self._left -= 1
        if self._trace is not None:
            _note(self._timeline, self._notes)
            self._note_visits()
        if self._left == 0:
            self._end(worker)

    def asked(self, worker: WorkerView) -> None:
        """End the trace if the run stops before the last traced step."""
        if worker.stopped:
            self._end(worker)

    def finished(self, worker: WorkerView, result: RunResult) -> None:  # noqa: ARG002
        """End the trace of a shorter run."""
        self._end(worker)

    def _note_visits(self) -> None:
        """Take down the parts of visits; what a thread beside has not finished comes later."""
        for timeline, notes in self._visits:
            _note(timeline, notes)

    def _end(self, worker: WorkerView) -> None:
        trace, self._trace = self._trace, None
        if trace is not None:
            worker.backend.observe(UNOBSERVED)
            if self._visits:
                worker.strategy.observe(UNOBSERVED, UNOBSERVED)
                self._note_visits()
            for name in TRACED:
                getattr(worker.clocks, name).watch = None
            try:
                trace.write(self._path)
            except OSError as error:
                worker.unwritten(self._path.name, f"it is missing ({reason_of(error)})")


def _direction(worker: WorkerView, region: Region) -> str:
    """A gradient that no exchange waits for is "ready" for sums of several batches alone."""
    own = region.direction
    return "sum" if own == READY and not worker.strategy.hears_of_parts else own


def _note(timeline: Timeline, notes: Sequence[Callable[[float, float], None]]) -> None:
    """Take down what was marked since the last time, in seconds."""
    parts = timeline.take()
    for number, begin, end in zip(parts.numbers, parts.begins, parts.ends, strict=True):
        notes[number](1e-9 * begin, 1e-9 * end)
