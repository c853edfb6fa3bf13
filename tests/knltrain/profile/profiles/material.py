"""Measures of workers, and a profile of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from knltrain.backends.region import Region
from knltrain.profile.document import profile_document
from knltrain.profile.exchanged import ExchangedPart
from knltrain.profile.measured import CLASSES, Figures, WorkerMeasure, statistics_of

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

EXCHANGED_PART = ExchangedPart(("conv", "bn"), 4_000, 9_000, 18_000_000)

FACTS = {
    "network": {"name": "small"},
    "batch_per_worker": 8,
    "batches_per_step": 1,
    "workers": 2,
    "threads_per_worker": 1,
    "method": "sync_easgd",
}


def measure(scale: float = 1.0, steps: int = 6, waiting: float = 0.0) -> WorkerMeasure:
    """A worker whose regions take 1, 4, 3 and 0.5 ms times `scale`, and its update 1 ms."""
    per_step = np.tile(np.array([1.0, 4.0, 3.0, 0.5]) * 1e-3 * scale, (steps, 1))
    per_step[-1] *= 1.5
    seconds = dict.fromkeys(CLASSES, 0.0)
    inside = float(per_step.sum(axis=1).mean())
    seconds.update(gradient=inside + 1e-4, update=1e-3, waiting=waiting, rest=1e-4)
    step = sum(seconds.values())
    figures = Figures(7.0, 3, 2e-3, 5e-4, 4, 1e-7, 0, 1e10, 1e9, 1)
    return WorkerMeasure(
        figures,
        np.array(list(seconds.values())),
        np.full(steps, step),
        np.full(steps, step - waiting - 1e-4),
        np.ones(4),
        statistics_of(per_step),
        np.array([[1e-3], [3e-3], [5e-4]]) * scale,
    )


def document(*measures: WorkerMeasure) -> dict[str, Any]:
    """The profile of workers with REGIONS, whose products are all that a network computes."""
    return profile_document(
        FACTS, REGIONS, [EXCHANGED_PART], measures or (measure(),), 18_000_000, (4_000, 20_000)
    )
