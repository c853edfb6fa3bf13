"""Profiles a window of a run's steps: every region of the backend, and the parts of a step."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, final

import numpy as np

from knltrain.backends.region import Region
from knltrain.clocks import UNOBSERVED
from knltrain.profile.document import PROFILE, profile_document
from knltrain.profile.exchanged import ExchangedPart
from knltrain.profile.measured import (
    CLASSES,
    EXCHANGED,
    Figures,
    WorkerMeasure,
    gathered,
    statistics_of,
)
from knltrain.profile.spans import Span, common, total, union, without
from knltrain.profile.window import WARM_UP_STEPS
from knltrain.timeline import Parts, Timeline, mark_seconds
from knltrain.worker.observer import Observer, RunResult
from knltrain.worker.run_files import write_if_possible
from knltrain.worker.view import WorkerView
from vectorized_ops.machine_bounds import MachineBounds

_MARKS: Final = 1 << 17
_ISSUED_MARKS: Final = 1 << 12
_COMPUTING, _EXCHANGING = ("batch", "gradient", "update"), ("exchange", "beside")
_READY: Final = "ready"


@final
class ProfileObserver(Observer):
    """Profiles `steps` steps after the first ones; rank 0 writes `profile.json` at the end.

    `facts` begin the document, `described` tells what lies in a part
    of the gradient. `training_flops` are the operations of a worker's step by
    definition, `update_cost` operations and bytes of the optimizer's.
    """

    def __init__(
        self,
        run_folder: Path,
        steps: int,
        threads: int,
        facts: Mapping[str, Any],
        training_flops: int,
        update_cost: tuple[int, int],
        described: Callable[[slice], ExchangedPart],
    ) -> None:
        self._path = run_folder / PROFILE
        self._steps, self._threads, self._facts = steps, threads, facts
        self._costs, self._described = (training_flops, update_cost), described
        self._timeline = Timeline(_MARKS)
        self._window: _Window | None = None
        self._measure: WorkerMeasure | None = None
        self._done = 0

    def step_done(self, worker: WorkerView, step: int, loss: float, learning_rate: float) -> None:  # noqa: ARG002
        """Count the step; begin and end the window."""
        self._done += 1
        if self._done == WARM_UP_STEPS:
            self._window = _Window(worker, self._timeline, step, self._steps)
        elif self._window is not None:
            self._window.step_done(worker)
            if self._done == WARM_UP_STEPS + self._steps:
                self._measure = self._window.end(worker)
                self._window = None

    def finished(self, worker: WorkerView, result: RunResult) -> None:  # noqa: ARG002
        """Measure the machine, with all workers at once, and write the document (collective)."""
        if self._measure is None:
            return
        bounds = MachineBounds(self._threads)
        worker.team.barrier()
        found = bounds.measure()
        figures = self._measure.figures._replace(
            flops_per_second=found.flops_per_second,
            bytes_per_second=found.bytes_per_second,
            mark_seconds=mark_seconds(),
            threads=self._threads,
        )
        measures = gathered(worker.team, self._measure._replace(figures=figures))
        if worker.team.rank == 0:
            exchanged = [self._described(part) for part in worker.strategy.exchanged_parts]
            document = profile_document(
                self._facts, worker.backend.regions, exchanged, measures, *self._costs
            )
            write_if_possible(worker, self._path, document)


@final
class _Window:
    """The steps that are measured, and what listens to them meanwhile."""

    def __init__(self, worker: WorkerView, timeline: Timeline, step: int, steps: int) -> None:
        self._timeline, self._first = timeline, step
        self._regions = worker.backend.regions
        count = len(self._regions)
        self._region_seconds = np.zeros((steps, count))
        self._calls = np.zeros(count)
        self._step_seconds, self._useful = np.zeros(steps), np.zeros(steps)
        self._row = self._marks = self._dropped = 0
        self._spans: dict[str, list[Span]] = {name: [] for name in (*_COMPUTING, *_EXCHANGING)}
        self._in_between: list[Span] = []
        self._ready = [
            number
            for number, region in enumerate(self._regions)
            if region.direction == _READY and worker.strategy.hears_of_parts
        ]
        for name, spans in self._spans.items():
            getattr(worker.clocks, name).watch = _note_in(spans)
        self._issued = Timeline(_ISSUED_MARKS)
        self._exchanged = np.zeros((len(EXCHANGED), len(worker.strategy.exchanged_parts)))
        worker.strategy.observe(self._issued)
        timeline.take()
        worker.backend.observe(timeline)
        self._before = worker.clocks.costs()
        self._training, self._computing = _seconds(worker)

    def step_done(self, worker: WorkerView) -> None:
        """Fold the marks of a step."""
        training, computing = _seconds(worker)
        self._step_seconds[self._row] = training - self._training
        self._useful[self._row] = computing - self._computing
        self._training, self._computing = training, computing
        parts = self._timeline.take()
        if self._regions:
            nanoseconds = parts.ends - parts.begins
            count = len(self._regions)
            self._region_seconds[self._row] = 1e-9 * np.bincount(
                parts.numbers, nanoseconds, minlength=count
            )
            self._calls += np.bincount(parts.numbers, minlength=count)
            self._marks += len(parts.numbers)
            self._dropped += parts.dropped
            self._in_between += self._ready_spans(parts)
        self._fold_exchanges()
        self._row += 1

    def end(self, worker: WorkerView) -> WorkerMeasure:
        """Stop listening, and sum up."""
        worker.backend.observe(UNOBSERVED)
        worker.strategy.observe(UNOBSERVED)
        for name in self._spans:
            getattr(worker.clocks, name).watch = None
        steps, costs = self._row, worker.clocks.costs()
        exchanging = union(
            [*self._in_between, *(each for name in _EXCHANGING for each in self._spans[name])]
        )
        computing = without(
            union(each for name in _COMPUTING for each in self._spans[name]),
            union(self._in_between),
        )
        figures = Figures(
            regions_key=_key_of(self._regions),
            first_step=self._first,
            union_seconds=total(exchanging) / steps,
            hidden_seconds=common(exchanging, computing) / steps,
            marks=self._marks / steps,
            mark_seconds=0.0,
            dropped=self._dropped,
            flops_per_second=0.0,
            bytes_per_second=0.0,
            threads=0,
        )
        classes = np.array([(costs[name] - self._before[name]) / steps for name in CLASSES])
        return WorkerMeasure(
            figures,
            classes,
            self._step_seconds,
            self._useful,
            self._calls / steps,
            statistics_of(self._region_seconds),
            self._exchanged / steps,
        )

    def _fold_exchanges(self) -> None:
        """The worker waits for the parts in their order, from the end of the gradient on."""
        issued, beside = self._issued.take(), self._spans["beside"]
        count = self._exchanged.shape[1]
        moved = beside[len(beside) - count :] if count else []
        if len(issued.numbers) != count or len(moved) != count:
            return
        came = self._spans["gradient"][-1][1]
        for number, ready, (begin, end) in zip(issued.numbers, issued.ends, moved, strict=True):
            self._exchanged[:, number] += end - begin, end - 1e-9 * ready, max(0.0, end - came)
            came = max(came, end)

    def _ready_spans(self, parts: Parts) -> list[Span]:
        own = np.isin(parts.numbers, self._ready)
        begins, ends = parts.begins[own] * 1e-9, parts.ends[own] * 1e-9
        return list(zip(begins.tolist(), ends.tolist(), strict=True))


def _note_in(spans: list[Span]) -> Callable[[float, float], None]:
    return lambda begin, end: spans.append((begin, end))


def _seconds(worker: WorkerView) -> tuple[float, float]:
    """Of training, and of computing, until now."""
    clocks = worker.clocks
    return clocks.train_seconds, sum(getattr(clocks, name).seconds for name in _COMPUTING)


def _key_of(regions: Sequence[Region]) -> float:
    """Equal for equal names and directions."""
    told = repr([(each.name, each.direction) for each in regions])
    return float(int.from_bytes(hashlib.sha256(told.encode()).digest()[:6], "big"))
