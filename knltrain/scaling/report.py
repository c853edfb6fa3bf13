"""Efficiency of runs with different numbers of workers.

Weak scaling keeps the images of a worker, strong scaling those of a batch. Efficiency is the speed
of a worker by that of a worker in the smallest run: of those with as many images for a worker, else
of those with the same batch, else of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from knltrain.errors import RunFolderError
from knltrain.scaling.runs import ScaledRun, results_of, scaled_runs

Kind: TypeAlias = Literal["weak", "strong", "mixed"]

SCHEMA: Final = "knltrain.scaling"
_RESAMPLES: Final = 2000
_INTERVAL: Final = (5, 95)
_LEAST_RATES: Final = 5
"""Fewer rates of a run tell no interval."""

_SAME: Final = ("network", "method", "backend")


def scaling_of(folders: Sequence[Path]) -> dict[str, Any]:
    """The report of runs, as JSON: a row for each, the smallest first; equal runs have one.

    An efficiency has an interval from the 5th to the 95th percentile of 2000 resamples (bootstrap)
    of the rates of both runs. Raises RunFolderError where they cannot be compared.
    """
    results = results_of(folders)
    found = scaled_runs(folders, results)
    if len({each.workers for each in found}) < 2:
        counts = ", ".join(str(each.workers) for each in found) or "none"
        raise RunFolderError(
            f"scaling needs runs with different numbers of workers; these have {counts}"
        )
    for name in _SAME:
        values = [str(each.get(name)) for each in results]
        if len(set(values)) > 1:
            raise RunFolderError(
                f"runs of different {name}s: {', '.join(dict.fromkeys(values))}; expected runs "
                "that differ in workers, nodes and batches alone"
            )
    draw = np.random.default_rng(0)
    return {
        "schema": SCHEMA,
        "version": [1, 1],
        "scaling": _kind(found),
        **{name: results[0].get(name) for name in _SAME},
        "rows": [_row(each, _base_of(each, found), draw) for each in found],
    }


def _kind(runs: Sequence[ScaledRun]) -> Kind:
    if len({each.batch_per_worker for each in runs}) == 1:
        return "weak"
    return "strong" if len({each.batch for each in runs}) == 1 else "mixed"


def _base_of(run: ScaledRun, runs: Sequence[ScaledRun]) -> ScaledRun:
    """What a run is compared with; `runs` begin with the smallest."""
    alike = [each for each in runs if each.batch_per_worker == run.batch_per_worker]
    if alike[0] is run:
        alike = [each for each in runs if each.batch == run.batch]
    if alike[0] is run and run.workers > runs[0].workers:
        alike = list(runs)
    return alike[0]


def _row(run: ScaledRun, base: ScaledRun, draw: np.random.Generator) -> dict[str, Any]:
    low, high = (None, None) if run is base else _interval(run, base, draw)
    return {
        "run": run.name,
        "repeats": run.repeats,
        "nodes": run.nodes,
        "workers": run.workers,
        "batch": run.batch,
        "images_per_second": run.images_per_second,
        "against": base.name,
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
    low, high = np.percentile(means[0] / means[1], _INTERVAL)
    return float(low), float(high)
