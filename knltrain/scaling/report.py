"""Efficiency of runs with different numbers of workers.

Weak scaling keeps the images of a worker, strong scaling those of a batch. Efficiency is the speed
of a worker by that of a worker in the run with the fewest workers: in weak scaling of those with as
many images for a worker, in strong scaling of those with the same batch. Runs that are neither are
compared with those of fewer workers: with as many images for one, else with the same batch, else
with the smallest.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from knltrain.errors import RunFolderError, first_repeated
from knltrain.scaling.runs import ScaledRun, results_of, scaled_runs
from knltrain.scaling.settings import OF_RESULT, differences, settings_of

Kind: TypeAlias = Literal["weak", "strong", "mixed"]

SCHEMA: Final = "knltrain.scaling"
_RESAMPLES: Final = 2000
_INTERVAL: Final = (5, 95)
_LEAST_RATES: Final = 5
"""Fewer rates of a run tell no interval."""


def scaling_of(folders: Sequence[Path], kind: Kind | None = None) -> dict[str, Any]:
    """The report of runs, as JSON: a row for each, the smallest first; equal runs have one.

    The `kind` of scaling follows from their batches, unless it is given.

    An efficiency has an interval from the 5th to the 95th percentile of 2000 resamples (bootstrap)
    of the rates of both runs. `notes` tell in what runs differ besides. Raises RunFolderError where
    they cannot be compared.
    """
    if (twice := first_repeated(each.resolve() for each in folders)) is not None:
        raise RunFolderError(f"{twice} is named twice: expected each run once")
    results = results_of(folders)
    settings = [settings_of(*each) for each in zip(folders, results, strict=True)]
    found = scaled_runs(folders, results, settings)
    if len({each.workers for each in found}) < 2:
        counts = ", ".join(str(each.workers) for each in found) or "none"
        raise RunFolderError(
            f"scaling needs runs with different numbers of workers; these have {counts}"
        )
    notes = differences([each.name for each in folders], settings)
    kind, draw = kind or _kind(found), np.random.default_rng(0)
    bases = [_base_of(each, found, kind) for each in found]
    return {
        "schema": SCHEMA,
        "version": [1, 2],
        "scaling": kind,
        **{name: results[0].get(name) for name in OF_RESULT},
        "notes": notes,
        "rows": [_row(*each, found, draw) for each in zip(found, bases, strict=True)],
    }


def _kind(runs: Sequence[ScaledRun]) -> Kind:
    if len({each.batch_per_worker for each in runs}) == 1:
        return "weak"
    return "strong" if len({each.batch for each in runs}) == 1 else "mixed"


def _base_of(run: ScaledRun, runs: Sequence[ScaledRun], kind: Kind) -> int:
    """The place of what a run is compared with, maybe its own; `runs` are by their workers."""
    per_worker = [n for n, each in enumerate(runs) if each.batch_per_worker == run.batch_per_worker]
    of_batch = [n for n, each in enumerate(runs) if each.batch == run.batch]
    if kind == "weak":
        return per_worker[0]
    if kind == "strong":
        return of_batch[0]
    for place in (per_worker[0], of_batch[0], 0):
        if runs[place].workers < run.workers:
            return place
    return next(n for n, each in enumerate(runs) if each is run)


def _row(
    run: ScaledRun, place: int, runs: Sequence[ScaledRun], draw: np.random.Generator
) -> dict[str, Any]:
    base = runs[place]
    low, high = (None, None) if run is base else _interval(run, base, draw)
    return {
        "run": run.name,
        "repeats": run.repeats,
        "nodes": run.nodes,
        "workers": run.workers,
        "batch": run.batch,
        "images_per_second": run.images_per_second,
        "base": place,
        "efficiency": run.per_worker / base.per_worker,
        "lowest_efficiency": low,
        "highest_efficiency": high,
        "communication_share": run.communication_share,
        "test_accuracy": run.test_accuracy,
        "train_seconds": run.train_seconds,
        "accuracy_by_seconds": [list(each) for each in run.curve],
    }


def _interval(
    run: ScaledRun, base: ScaledRun, draw: np.random.Generator
) -> tuple[float | None, float | None]:
    if min(run.rates.size, base.rates.size) < _LEAST_RATES:
        return None, None
    means = [
        draw.choice(each.rates, (_RESAMPLES, each.rates.size)).mean(axis=1) / each.workers
        for each in (run, base)
    ]
    if not means[1].all():  # a run that stood still
        return None, None
    low, high = np.percentile(means[0] / means[1], _INTERVAL)
    return float(low), float(high)
