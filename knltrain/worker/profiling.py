"""Profiles a window of a run's steps: every region of the backend, and the parts of a step."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

import numpy as np

from knltrain.backends.region import READY, Region
from knltrain.clocks import UNOBSERVED, VISIT
from knltrain.exchange.strategies.method import Method
from knltrain.exchange.transports.team import Team, of_all_workers
from knltrain.profile.arrivals import Arrivals
from knltrain.profile.bounds import Ceilings
from knltrain.profile.costs import UpdateCost
from knltrain.profile.document import PROFILE, profile_document
from knltrain.profile.exchanged import ExchangedPart
from knltrain.profile.measured import (
    CLASSES,
    EXCHANGED,
    Figures,
    Floats,
    WorkerMeasure,
    gathered,
    lacking,
    statistics_of,
)
from knltrain.profile.spans import Span, overlap, total, union, without
from knltrain.profile.window import WARM_UP_STEPS
from knltrain.timeline import Parts, Timeline, mark_seconds
from knltrain.worker.observer import Observer, RunResult
from knltrain.worker.run_files import write_if_possible
from knltrain.worker.termination import MEETING_SECONDS
from knltrain.worker.view import WorkerView
from vectorized_ops.implementations import OF_LAYOUTS
from vectorized_ops.machine_bounds import MachineBounds

_MARKS: Final = 1 << 17
_ISSUED_MARKS: Final = 1 << 12
_BOUND_SECONDS: Final = 0.1
_LINK_BYTES, _LINK_TRIES = 8 << 20, 4
"""A quarter of a second over 1 Gbit/s; the first try may open connections."""

_TRIED_WATCHES: Final = 10_000
_COMPUTING: Final = ("batch", "gradient", "update")
_BESIDES: Final = ("meeting", "evaluation", "checkpoint")
"""In these a step stands still, and a thread beside may go on."""
_LISTENED: Final = (*_COMPUTING, *_BESIDES, "exchange", "waiting", "beside")
_LAYOUTS: Final = {made: layout for layout, made in OF_LAYOUTS.items()}
"""By the implementation of the kernels, as `backend.layout` names them."""


@dataclass(frozen=True, slots=True)
class ProfiledRun:
    """What a profile needs to know of a run and of a worker.

    - `facts` begin the document; a step takes `batches` batches of `images` images
    - `training_flops` are a worker's products in a step by definition
    - `updates` are operations and bytes of the optimizer's step, by layer
    - `described` tells of a part of the parameters what it is, and what a step moves of it by a
      method with its period at that step
    - `rounds_products` tells whether products are of bfloat16, by instructions of the processor
    """

    facts: Mapping[str, Any]
    images: int
    batches: int
    threads: int
    workers_on_node: int
    training_flops: int
    updates: Mapping[str, UpdateCost]
    described: Callable[[slice, Method, int], ExchangedPart]
    rounds_products: bool = False


@final
class ProfileObserver(Observer):
    """Profiles `steps` steps after the first ones; rank 0 writes `profile.json` at the end."""

    def __init__(self, run_folder: Path, steps: int, run: ProfiledRun) -> None:
        self._path = run_folder / PROFILE
        self._steps, self._run = steps, run
        self._window: _Window | None = None
        self._is_open = False
        self._done = 0

    def started(self, worker: WorkerView) -> None:
        """Make all that the window needs."""
        self._window = _Window(worker, self._steps, self._run.images)

    def step_done(self, worker: WorkerView, step: int, loss: float, learning_rate: float) -> None:  # noqa: ARG002
        """Count the step; begin and end the window."""
        assert self._window is not None
        self._done += 1
        if self._is_open:
            self._window.step_done(worker)
        if self._done == WARM_UP_STEPS:
            self._is_open = True
            self._window.open(worker, step)
        elif self._is_open and self._done == WARM_UP_STEPS + self._steps:
            self._is_open = False
            self._window.close(worker)

    def finished(self, worker: WorkerView, result: RunResult) -> None:  # noqa: ARG002
        """Measure the machine, with all workers at once, and write the document (collective)."""
        window, team = self._window, worker.team
        assert window is not None
        if self._is_open:
            window.close(worker)
        if without_step := lacking(team, window.steps):
            if team.rank == 0 and not self._path.exists():
                ranks = ", ".join(map(str, without_step))
                worker.unwritten(
                    PROFILE,
                    f"it is missing: of {self._done} steps the first {WARM_UP_STEPS} are left out, "
                    f"and none was left to worker {ranks}; take more steps",
                )
            return
        measure = window.measured(self._ceilings(worker), self._run.threads)
        in_step = not worker.strategy.method.comes_at_any_time
        found = gathered(team, measure, in_step=in_step)
        if team.rank == 0:
            layout = _LAYOUTS.get(str(worker.backend.description.get("implementation")))
            document = profile_document(
                {**self._run.facts, "layout": layout, "profile_steps": self._steps},
                [each.times(self._run.batches) for each in window.regions],
                [
                    self._run.described(part, worker.strategy.method, window.first)
                    for part in window.parts
                ],
                found,
                self._run.training_flops,
                self._run.updates,
            )
            write_if_possible(worker, self._path, document)

    def _ceilings(self, worker: WorkerView) -> Ceilings:
        """Of this worker's threads while all others do the same, and of its node (collective)."""
        run, team = self._run, worker.team
        machine, rates = MachineBounds(run.threads, run.workers_on_node), []
        measures = [machine.flops_per_second, machine.bytes_per_second, _nothing]
        if run.rounds_products:
            rounded = MachineBounds(run.threads, run.workers_on_node, "bfloat16")
            measures[-1] = rounded.flops_per_second
        for measure in measures:
            team.barrier(MEETING_SECONDS)
            rates.append(measure(_BOUND_SECONDS))
        flops, moved, of_products = rates
        return Ceilings(flops, max(flops, of_products), moved, _link_rate(team))


def _nothing(_seconds: float) -> float:
    return 0.0


def _link_rate(team: Team) -> float:
    """Of a few tries the best; of each the slowest node, as a late one finds all sent already."""
    tries = []
    for _ in range(_LINK_TRIES):
        team.barrier(MEETING_SECONDS)
        tries.append(team.link_rate(_LINK_BYTES) or 0.0)
    found = of_all_workers(team, tries)
    sending = found[found.any(axis=1)]
    return float(sending.min(axis=0).max()) if sending.size else 0.0


@final
class _Window:
    """The steps that are measured, and what listens to them meanwhile."""

    def __init__(self, worker: WorkerView, steps: int, images: int) -> None:
        self.regions, self.steps = worker.backend.regions, 0
        count = len(self.regions)
        self._key, self._method = _key_of(self.regions, images), worker.strategy.method
        self._timeline, self._issued = Timeline(_MARKS), Timeline(_ISSUED_MARKS)
        self._beside, self._visits = Timeline(_ISSUED_MARKS), np.zeros((2, len(VISIT)))
        self._region_seconds, self._calls = np.zeros((steps, count)), np.zeros(count)
        self._step_seconds, self._useful = np.zeros(steps), np.zeros(steps)
        own_parts = worker.strategy.exchanged_parts
        self.parts, self._by_parts = own_parts or _whole(worker), bool(own_parts)
        exchanged = len(self.parts)
        self._exchanged, self._arrivals = np.zeros((len(EXCHANGED), exchanged)), Arrivals(exchanged)
        self._dropped = self._exchanges = self.first = 0
        self._spans: dict[str, list[Span]] = {name: [] for name in _LISTENED}
        self._in_between: list[Span] = []
        self._apart: list[Span] = []
        """What no step has: the time before the first one, after the last one, and summing up."""
        self._ready = [
            number
            for number, region in enumerate(self.regions)
            if region.direction == READY and worker.strategy.hears_of_parts
        ]
        self._own_seconds = self._all_own = 0.0
        self._wall = self._computed = self._training = 0.0
        self._before = self._classes = np.zeros(len(CLASSES))

    def open(self, worker: WorkerView, step: int) -> None:
        """Begin with the next step; `step` are done."""
        self.first = step
        for name, spans in self._spans.items():
            getattr(worker.clocks, name).watch = _note_in(spans)
        worker.backend.observe(self._timeline)
        worker.strategy.observe(self._issued, self._beside)
        self._before, self._training = _classes(worker), worker.clocks.train_seconds
        self._wall, self._computed = _wall(worker), _computed(worker)
        self._apart.append((-math.inf, time.perf_counter()))

    def step_done(self, worker: WorkerView) -> None:
        """Sum up the marks of a step. What this takes is not the next step's."""
        begin = time.perf_counter()
        wall, computed, row = _wall(worker), _computed(worker), self.steps
        self._step_seconds[row] = wall - self._wall - self._own_seconds
        parts, count = self._timeline.take(), len(self.regions)
        in_between = self._ready_spans(parts)
        nanoseconds = parts.ends - parts.begins
        self._region_seconds[row] = 1e-9 * np.bincount(parts.numbers, nanoseconds, count)[:count]
        self._calls += np.bincount(parts.numbers, minlength=count)[:count]
        self._dropped += parts.dropped
        self._in_between += in_between
        self._useful[row] = computed - self._computed - total(in_between)
        if worker.strategy.marks_visits:
            self._add_visits()
        elif worker.strategy.marks_arrivals:
            self._add_arrivals()
        elif self._by_parts:
            self._add_exchanges()
        self.steps += 1
        self._wall, self._computed = wall, computed
        self._own_seconds = _wall(worker) - wall
        self._all_own += self._own_seconds
        self._apart.append((begin, time.perf_counter()))

    def close(self, worker: WorkerView) -> None:
        """Stop listening."""
        worker.backend.observe(UNOBSERVED)
        worker.strategy.observe(UNOBSERVED, UNOBSERVED)
        for name in self._spans:
            getattr(worker.clocks, name).watch = None
        self._classes = _classes(worker) - self._before
        self._training = worker.clocks.train_seconds - self._training

    def measured(self, ceilings: Ceilings, threads: int) -> WorkerMeasure:
        """What was measured, in `steps` steps."""
        steps, useful = self.steps, self._useful[: self.steps]
        spans, timed = self._spans, self._exchanges
        computing = [each for name in _COMPUTING for each in spans[name]]
        besides = [each for name in _BESIDES for each in spans[name]]
        apart = union([*self._apart, *besides, (self._apart[-1][0], math.inf)])
        beside = without(union(spans["beside"]), apart)
        whole, hidden = overlap(computing, [*spans["exchange"], *beside], self._in_between)
        if self.parts and not self._by_parts:
            waiting = () if self._method.strategy.waits_while_moving else spans["waiting"]
            moving = without(union(spans["exchange"]), union(waiting))
            moved = total(union([*moving, *beside]))
            self._exchanged[:, 0], timed = (moved, whole, whole - hidden), steps
        # What is summed up after a step counts as the next one's rest; the last one's is not there.
        own = (self._all_own - self._own_seconds) / steps
        classes = self._classes / steps
        classes[CLASSES.index("rest")] -= own
        median = float(np.median(useful))
        far = median + 5 * float(np.median(np.abs(useful - median)))
        figures = Figures(
            steps=steps,
            first_step=self.first,
            regions_key=self._key,
            training_seconds=self._training / steps - own,
            useful_seconds=float(useful.mean()),
            useful_deviation=float(useful.std()),
            late_steps=float((useful > far).sum()),
            union_seconds=whole / steps,
            hidden_seconds=hidden / steps,
            exchanges=timed,
            waits_apart=not (
                self._method.strategy.waits_while_moving
                or self._method.strategy.overlaps(self._method)
            ),
            marks=sum(each.count for each in (self._timeline, self._issued, self._beside)) / steps,
            mark_seconds=mark_seconds(),
            watches=sum(map(len, self._spans.values())) / steps,
            watch_seconds=_watch_seconds(),
            fold_seconds=self._all_own / steps,
            dropped=self._dropped,
            threads=threads,
            **ceilings._asdict(),
        )
        return WorkerMeasure(
            figures,
            classes,
            self._step_seconds[:steps],
            useful,
            self._calls / steps,
            statistics_of(self._region_seconds[:steps]),
            self._exchanged / max(timed, 1),
            self._visits.ravel() / steps,
        )

    def _add_visits(self) -> None:
        """What a thread beside has not finished yet counts to a later step."""
        for timeline in (self._issued, self._beside):
            parts = timeline.take()
            seconds = 1e-9 * (parts.ends - parts.begins)
            self._visits[0] += np.bincount(parts.numbers, minlength=len(VISIT))
            self._visits[1] += np.bincount(parts.numbers, seconds, len(VISIT))

    def _add_exchanges(self) -> None:
        """The worker waits for the parts in their order, from the end of the gradient on."""
        issued, beside = self._issued.take(), self._spans["beside"]
        count = self._exchanged.shape[1]
        moved = beside[-count:]
        gradients = self._spans["gradient"]  # none of a worker without images
        if len(issued.numbers) != count or len(moved) != count or not gradients:
            return
        self._exchanges += 1
        came = gradients[-1][1]
        for number, ready, (begin, end) in zip(issued.numbers, issued.ends, moved, strict=True):
            self._exchanged[:, number] += end - begin, end - 1e-9 * ready, max(0.0, end - came)
            came = max(came, end)

    def _add_arrivals(self) -> None:
        given, came = self._issued.take(), self._beside.take()
        gradients = self._spans["gradient"]  # none of a worker without images
        if given.dropped or came.dropped or not gradients:
            self._arrivals.clear()
            return
        self._arrivals.add(1e-9 * given.ends, gradients[-1][1], 1e-9 * came.ends)
        for seconds in self._arrivals.take():
            self._exchanged += seconds
            self._exchanges += 1

    def _ready_spans(self, parts: Parts) -> list[Span]:
        own = np.isin(parts.numbers, self._ready)
        begins, ends = parts.begins[own] * 1e-9, parts.ends[own] * 1e-9
        return list(zip(begins.tolist(), ends.tolist(), strict=True))


def _whole(worker: WorkerView) -> Sequence[slice]:
    """All parameters, where workers exchange them."""
    alone = worker.team.workers == 1 or worker.strategy.method.period is None
    return () if alone else (slice(0, worker.strategy.gradient.size),)


def _note_in(spans: list[Span]) -> Callable[[float, float], None]:
    return lambda begin, end: spans.append((begin, end))


def _watch_seconds() -> float:
    """What watching a clock costs here and now."""
    note = _note_in([])
    begin = time.perf_counter()
    for _ in range(_TRIED_WATCHES):
        note(begin, begin)
    return (time.perf_counter() - begin) / _TRIED_WATCHES


def _wall(worker: WorkerView) -> float:
    """A clock that stands still while there is no training."""
    clocks = worker.clocks
    besides = clocks.meeting.seconds + clocks.evaluation.seconds + clocks.checkpoint.seconds
    return time.perf_counter() - besides


def _computed(worker: WorkerView) -> float:
    return worker.clocks.gradient.seconds + worker.clocks.update.seconds


def _classes(worker: WorkerView) -> Floats:
    costs = worker.clocks.costs()
    return np.array([costs[name] for name in CLASSES])


def _key_of(regions: Sequence[Region], images: int) -> float:
    """Equal for equal names and directions, and as many images."""
    told = repr((images, [(each.name, each.direction) for each in regions]))
    return float(int.from_bytes(hashlib.sha256(told.encode()).digest()[:6], "big"))
