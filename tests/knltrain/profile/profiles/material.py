"""Measures of workers, and a profile of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from knltrain.backends.region import Region
from knltrain.profile.costs import UpdateCost
from knltrain.profile.document import profile_document
from knltrain.profile.exchanged import ExchangedPart
from knltrain.profile.measured import (
    CLASSES,
    Figures,
    WorkerMeasure,
    WorkersMeasured,
    statistics_of,
    thirds_of,
)

REGIONS = [
    Region("images", "load", "data movement", compulsory_bytes=40_000),
    Region(
        "conv", "forward", "convolution 3x3", ("conv", "relu"), "winograd4", (),
        9_100_000, 9_000_000, 4_000_000, 100_000, 120_000, 180_000,
    ),
    Region(
        "conv", "backward_weights", "convolution 3x3", ("conv", "relu"), "direct", (),
        9_000_000, 9_000_000, 9_000_000, 100_000, 120_000, 100_000,
    ),
    Region("gradient", "ready", "exchange"),
]  # fmt: skip

UPDATES = {"conv": UpdateCost(3_000, 15_000), "bn": UpdateCost(1_000, 5_000)}

EXCHANGED_PART = ExchangedPart(("conv", "bn"), 4_000, 9_000, 8_000, 18_000_000, 1)

FACTS = {
    "network": {"name": "small"},
    "batch_per_worker": 8,
    "batches_per_step": 1,
    "workers": 2,
    "threads_per_worker": 1,
    "method": "sync_easgd",
}


def measure(
    scale: float = 1.0, steps: int = 6, waiting: float = 0.0, rest: float = 1e-4
) -> WorkerMeasure:
    """A worker whose regions take 1, 4, 3 and 0.5 ms times `scale`, and its update 1 ms."""
    per_step = np.tile(np.array([1.0, 4.0, 3.0, 0.5]) * 1e-3 * scale, (steps, 1))
    per_step[-1] *= 1.5
    seconds = dict.fromkeys(CLASSES, 0.0)
    inside = float(per_step.sum(axis=1).mean())
    seconds.update(gradient=inside + 1e-4, update=1e-3, moving=1.5e-3, waiting=waiting, rest=rest)
    step, useful = sum(seconds.values()), seconds["gradient"] + seconds["update"]
    figures = Figures(
        steps=steps,
        first_step=3,
        regions_key=7.0,
        training_seconds=step,
        useful_seconds=useful,
        useful_deviation=0.1 * useful,
        late_steps=1,
        union_seconds=2e-3,
        hidden_seconds=5e-4,
        exchanges=steps,
        waits_apart=True,
        marks=4,
        mark_seconds=1e-7,
        watches=6,
        watch_seconds=1e-7,
        fold_seconds=2e-5,
        dropped=0,
        flops_per_second=1e10,
        product_flops_per_second=1e10,
        bytes_per_second=1e9,
        link_bytes_per_second=0.0,
        threads=1,
    )
    return WorkerMeasure(
        figures,
        np.array(list(seconds.values())),
        np.full(steps, step),
        np.full(steps, useful),
        np.ones(4),
        statistics_of(per_step),
        np.array([[1e-3], [3e-3], [5e-4]]) * scale,
        np.zeros(8),
    )


def all_of(*measures: WorkerMeasure) -> WorkersMeasured:
    """What all workers measured, as rank 0 comes to know it; the slowest is always the last."""
    useful = [each.figures.useful_seconds for each in measures]
    return WorkersMeasured(
        own=measures[0],
        figures=[each.figures for each in measures],
        class_seconds=[each.class_seconds for each in measures],
        step_seconds=[statistics_of(each.step_seconds) for each in measures],
        thirds=[thirds_of(each.step_seconds) for each in measures],
        like_own=list(range(len(measures))),
        regions=np.mean([each.region_seconds for each in measures], axis=0),
        exchanges=np.mean([each.exchange_seconds for each in measures], axis=0),
        by_rank=[each.region_seconds[0] for each in measures],
        visits=[each.visits for each in measures],
        last_shares=[float(each == max(useful)) for each in useful] if len(measures) > 1 else None,
    )


def document(*measures: WorkerMeasure) -> dict[str, Any]:
    """The profile of workers with REGIONS, whose products are all that a network computes."""
    found = all_of(*(measures or (measure(),)))
    return profile_document(FACTS, REGIONS, [EXCHANGED_PART], found, 18_000_000, UPDATES)
