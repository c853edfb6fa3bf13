"""Shares of a batch during a run: recorded, fitted anew by the times of steps, or replayed.

All go by the run's step, which is the same for all workers at a meeting; their own may differ.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import final

from knltrain.balance.record import (
    SHARES,
    SharesFrom,
    header_of,
    images_at,
    row_of,
    rows_before,
)
from knltrain.balance.shares import Cost, refitted
from knltrain.exchange.transports.team import of_all_workers
from knltrain.files.durable import reason_of, write_whole
from knltrain.worker.observer import Observer
from knltrain.worker.view import WorkerView


class _Recording(Observer):
    """Rank 0 writes the shares into a file of the run's folder, a row whenever they change."""

    def __init__(self, run_folder: Path, shares: Sequence[int], costs: Sequence[Cost]) -> None:
        self.shares, self.costs = tuple(shares), tuple(costs)
        self._path = run_folder / SHARES
        self._rows: list[list[str]] = []

    def started(self, worker: WorkerView) -> None:
        """Write the row of the first step; a run that goes on drops those of steps it repeats."""
        if worker.progress.ended:
            return
        if worker.team.rank == 0:
            self._rows = rows_before(self._path, worker.progress.step)
        self._write(worker)

    def take(self, worker: WorkerView, shares: tuple[int, ...]) -> None:
        """Let the worker take another share from here on (collective)."""
        if shares != self.shares:
            self.shares = shares
            worker.share_out(shares)
            worker.rehearse()
            self._write(worker)

    def _write(self, worker: WorkerView) -> None:
        if worker.team.rank:
            return
        pairs = zip(self.costs, self.shares, strict=True)
        seconds = [cost.of(images) for cost, images in pairs]
        self._rows.append(row_of(SharesFrom(worker.progress.step, self.shares), seconds))
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([header_of(len(seconds)), *self._rows])
        try:
            write_whole(self._path, text.getvalue())
        except OSError as error:
            worker.unwritten(SHARES, f"it lacks rows ({reason_of(error)})")
        else:
            worker.unwritten(SHARES, "")


@final
class FittingObserver(_Recording):
    """Fits the shares anew by the times of the steps, as often as `refit_steps` says; 0: never."""

    def __init__(
        self,
        run_folder: Path,
        shares: Sequence[int],
        costs: Sequence[Cost],
        granule: int,
        refit_steps: int,
        iter_size: int = 1,
    ) -> None:
        super().__init__(run_folder, shares, costs)
        self._granule, self._refit_steps, self._iter_size = granule, refit_steps, iter_size
        self._since = (0, 0.0)

    def started(self, worker: WorkerView) -> None:
        """Write the first row, and begin to measure."""
        super().started(worker)
        self._since = (worker.step, _computed(worker))

    def is_due(self, since: int, step: int) -> bool:
        """After so many steps."""
        return bool(self._refit_steps) and step // self._refit_steps > since // self._refit_steps

    def met(self, worker: WorkerView) -> None:
        """Gather the times of all workers, and fit."""
        if worker.progress.ended:
            return
        step, seconds = self._since
        self._since = worker.step, _computed(worker)
        batches = (worker.step - step) * self._iter_size
        own = (self._since[1] - seconds) / batches if batches else 0.0
        taken = [float(each) for each in of_all_workers(worker.team, [own])[:, 0]]
        may_idle = worker.strategy.method.may_idle
        self.costs, shares = refitted(self.costs, self.shares, taken, self._granule, may_idle)
        self.take(worker, shares)


@final
class ReplayingObserver(_Recording):
    """Takes the shares that another run had at the same steps."""

    def __init__(self, run_folder: Path, recorded: Sequence[SharesFrom]) -> None:
        workers = len(recorded[0].images)
        super().__init__(run_folder, recorded[0].images, (Cost(0.0, 0.0),) * workers)
        self._recorded = recorded

    def started(self, worker: WorkerView) -> None:
        """Take the shares of the first step that is taken."""
        self.shares = images_at(self._recorded, worker.progress.step)
        worker.share_out(self.shares)
        super().started(worker)

    def is_due(self, since: int, step: int) -> bool:
        """At the steps of the other run's changes."""
        return any(since < each.step <= step for each in self._recorded)

    def met(self, worker: WorkerView) -> None:
        """Take the shares of this step on."""
        self.take(worker, images_at(self._recorded, worker.progress.step))


def _computed(worker: WorkerView) -> float:
    """Seconds of gradients so far, and of the batches that the worker filled for them."""
    clocks = worker.clocks
    return clocks.gradient.seconds + clocks.batch.seconds
