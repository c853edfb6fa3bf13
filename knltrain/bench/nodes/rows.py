"""Rows of a report, one for each training: medians over the rounds."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from knltrain.bench.nodes.training import Training, TrainingFigures
from knltrain.bench.nodes.trainings import SEASGD, STAR

Rounds: TypeAlias = Mapping[str, Sequence[TrainingFigures]]
"""By a training's name, what each round has found of it."""


def row(training: Training, found: Rounds) -> dict[str, Any]:
    """Return the row of one training."""
    rounds = found[training.name]
    own = [each.images_per_second for each in rounds]
    base = [each.images_per_second for each in found.get(training.of_one_host or "", ())]
    shares = [mine / theirs for mine, theirs in zip(own, base, strict=False)]
    return {
        "name": training.name,
        "what": training.what,
        "images_per_second": statistics.median(own),
        "of_rounds": own,
        "of_one_host": training.of_one_host if shares else None,
        "efficiency": _median(shares),
        "efficiencies": shares,
        "hidden": _median(each.hidden for each in rounds),
        "communication_seconds": _median(each.communication_seconds for each in rounds),
        "computing_seconds": _median(each.computing_seconds for each in rounds),
        "step_seconds": _median(each.step_seconds for each in rounds),
        "communication_share": _median(each.communication_share for each in rounds),
    }


def star_by_seasgd(found: Rounds) -> dict[str, Any] | None:
    """Communication of a step by the star, waiting included, divided by that of `seasgd`.

    None unless both were measured.
    """
    pairs = zip(found.get(STAR, ()), found.get(SEASGD, ()), strict=False)
    ratios = [
        star.communication_seconds / ours.communication_seconds
        for star, ours in pairs
        if star.communication_seconds is not None and ours.communication_seconds
    ]
    return {"median": statistics.median(ratios), "of_rounds": ratios} if ratios else None


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
