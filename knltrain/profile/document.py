"""The profile of a run as one document, which `profile.json` has whole.

Its keys are explained in docs/profile.md. What was not measured is None, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from knltrain.backends.region import Region
from knltrain.profile.bounds import binding
from knltrain.profile.exchanged import ExchangedPart
from knltrain.profile.measured import CLASSES, EXCHANGED, STATISTICS, WorkerMeasure, statistics_of
from vectorized_ops.machine_bounds import Bounds

SCHEMA: Final = "knltrain.profile"
VERSION: Final = (1, 0)
"""A reader refuses another first number, and ignores keys that it does not know."""

PROFILE: Final = "profile.json"

REST_LIMIT: Final = 0.02
SHORT_REST_LIMIT: Final = 0.10
SHORT_STEP_SECONDS: Final = 0.02
"""Of shorter steps, what Python does around the parts is a larger share."""

OVERHEAD_LIMIT: Final = 0.02


def profile_document(
    run: Mapping[str, Any],
    regions: Sequence[Region],
    exchanged: Sequence[ExchangedPart],
    measures: Sequence[WorkerMeasure],
    training_flops: int,
    update_cost: tuple[int, int],
) -> dict[str, Any]:
    """The document of a run; `run` are facts about it, which it begins with.

    `regions` are those of rank 0, `exchanged` the parts of a gradient that are exchanged by
    themselves, in their order. `training_flops` are the operations of its convolutions and dense
    layers in a step by definition; `update_cost` operations and bytes of an update.
    """
    first = measures[0]
    like_first = [each for each in measures if _key(each) == _key(first)]
    steps = np.mean([statistics_of(each.step_seconds) for each in measures], axis=0)
    bounds = [_bounds(each) for each in measures]
    stages = [
        _stage(number, region, like_first, bounds[0]) for number, region in enumerate(regions)
    ]
    parts = _parts_of_step(measures, update_cost, bounds[0])
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "version": list(VERSION),
        **run,
        "window": {
            "first_step": int(first.figures.first_step),
            "steps": first.step_seconds.size,
            "seconds": float(first.step_seconds.sum()),
            "thirds": [
                float(part.mean()) for part in np.array_split(first.step_seconds, 3) if part.size
            ],
        },
        "step_seconds": _named(steps),
        "overhead": _overhead(first),
        "machine": [
            {
                "rank": rank,
                "threads": int(each.figures.threads),
                "sgemm_flops_per_second": bound.flops_per_second,
                "copy_bytes_per_second": bound.bytes_per_second,
            }
            for rank, (each, bound) in enumerate(zip(measures, bounds, strict=True))
        ],
        "ranks": [_rank(rank, each, measures) for rank, each in enumerate(measures)],
        "stages": stages,
        "parts": parts,
        "exchanges": [_exchange(number, part, measures) for number, part in enumerate(exchanged)],
        "communication": _communication(measures),
        "efficiency": _efficiency(measures),
    }
    document["checks"] = _checks(document, regions, training_flops)
    return document


def _key(measure: WorkerMeasure) -> float:
    return measure.figures.regions_key


def _bounds(measure: WorkerMeasure) -> Bounds:
    return Bounds(measure.figures.flops_per_second, measure.figures.bytes_per_second)


def _named(statistics: Any) -> dict[str, float]:
    return dict(zip(STATISTICS, map(float, statistics), strict=True))


def _stage(
    number: int, region: Region, measures: Sequence[WorkerMeasure], bounds: Bounds
) -> dict[str, Any]:
    by_rank = [float(each.region_seconds[0, number]) for each in measures]
    seconds = np.mean([each.region_seconds[:, number] for each in measures], axis=0)
    flops = region.flops if region.executed_flops is None else region.executed_flops
    moved = region.compulsory_bytes if region.layout_bytes is None else region.layout_bytes
    return {
        "place": number,
        "name": region.name,
        "layers": list(region.layers),
        "class": region.kind,
        "direction": region.direction,
        "algorithm": region.algorithm,
        "does_for": list(region.does_for),
        "calls": float(measures[0].calls[number]),
        "seconds": _named(seconds),
        "by_rank": by_rank,
        "flops": region.flops,
        "executed_flops": region.executed_flops,
        "compulsory_bytes": region.compulsory_bytes,
        "layout_bytes": region.layout_bytes,
        "unfused_bytes": region.unfused_bytes,
        **_rates(flops, moved, float(seconds[0]), bounds, region.flops, region.compulsory_bytes),
    }


def _rates(
    done_flops: int, moved: int, seconds: float, bounds: Bounds, flops: int, compulsory: int
) -> dict[str, Any]:
    """By definition: intensity, rates and their shares; by what is executed: bound, efficiency."""
    found = binding(done_flops, moved, bounds, seconds) if seconds else None
    by_flops = flops / seconds if seconds and flops else None
    by_bytes = compulsory / seconds if seconds and compulsory else None
    return {
        "intensity": flops / compulsory if compulsory else None,
        "flops_per_second": by_flops,
        "share_of_sgemm": None if by_flops is None else by_flops / bounds.flops_per_second,
        "bytes_per_second": by_bytes,
        "share_of_copy": None if by_bytes is None else by_bytes / bounds.bytes_per_second,
        "bound": None if found is None else found.bound,
        "bound_seconds": None if found is None else found.seconds,
        "efficiency": None if found is None else found.seconds / seconds,
    }


def _parts_of_step(
    measures: Sequence[WorkerMeasure], update_cost: tuple[int, int], bounds: Bounds
) -> list[dict[str, Any]]:
    """What of a step is no stage's: classes of `knltrain.clocks`, and the rest of `gradient`."""
    means = np.mean([each.class_seconds for each in measures], axis=0)
    seconds = dict(zip(CLASSES, map(float, means), strict=True))
    inside = float(np.mean([np.nansum(each.region_seconds[0]) for each in measures]))
    parts = []
    for name in ("batch", "update", "waiting", "moving", "center_update", "rest"):
        flops, moved = update_cost if name == "update" else (0, 0)
        rates = _rates(flops, moved, seconds[name], bounds, flops, moved)
        parts.append({"name": name, "seconds": seconds[name], **(rates if flops else {})})
    if inside:
        parts.append({"name": "around stages", "seconds": seconds["gradient"] - inside})
    else:
        parts.insert(1, {"name": "gradient", "seconds": seconds["gradient"]})
    return parts


def _exchange(
    number: int, part: ExchangedPart, measures: Sequence[WorkerMeasure]
) -> dict[str, Any]:
    seconds = np.mean([each.exchange_seconds[:, number] for each in measures], axis=0)
    return {
        "place": number,
        "layers": list(part.layers),
        "packed_bytes": part.packed_bytes,
        "wire_bytes": part.sent_bytes,
        "communication_intensity": part.flops / part.sent_bytes if part.sent_bytes else None,
        **{f"{name}_seconds": float(each) for name, each in zip(EXCHANGED, seconds, strict=True)},
    }


def _rank(rank: int, measure: WorkerMeasure, measures: Sequence[WorkerMeasure]) -> dict[str, Any]:
    useful = measure.useful_seconds
    mean = float(useful.mean())
    slowest = np.argmax([each.useful_seconds for each in measures], axis=0)
    median = float(np.median(useful))
    deviation = float(np.median(np.abs(useful - median)))
    return {
        "rank": rank,
        "step_seconds": _named(statistics_of(measure.step_seconds)),
        "classes": dict(zip(CLASSES, map(float, measure.class_seconds), strict=True)),
        "useful_seconds": mean,
        "noise_cv": float(useful.std()) / mean if mean else None,
        "late_steps": int((useful > median + 5 * max(deviation, 1e-9)).sum()),
        "last_share": float((slowest == rank).mean()) if len(measures) > 1 else None,
    }


def _communication(measures: Sequence[WorkerMeasure]) -> dict[str, Any]:
    whole = float(np.mean([each.figures.union_seconds for each in measures]))
    hidden = float(np.mean([each.figures.hidden_seconds for each in measures]))
    waiting = float(np.mean([each.class_seconds[CLASSES.index("waiting")] for each in measures]))
    return {
        "union_seconds": whole,
        "hidden_seconds": hidden,
        "exposed_seconds": whole - hidden,
        "exposed_wait_seconds": waiting,
        "hidden_share": hidden / whole if whole and len(measures) > 1 else None,
    }


def _efficiency(measures: Sequence[WorkerMeasure]) -> dict[str, Any]:
    """Load balance x communication efficiency = parallel efficiency, as the POP centres define."""
    if len(measures) == 1:
        return {"load_balance": None, "communication": None, "parallel": None}
    useful = [float(each.useful_seconds.mean()) for each in measures]
    wall = max(float(each.step_seconds.mean()) for each in measures)
    balance, communication = float(np.mean(useful)) / max(useful), max(useful) / wall
    return {
        "load_balance": balance,
        "communication": communication,
        "parallel": balance * communication,
    }


def _overhead(measure: WorkerMeasure) -> dict[str, Any]:
    figures, steps = measure.figures, measure.step_seconds
    spread = statistics_of(steps)
    even, odd = steps[::2], steps[1::2]
    noise = abs(float(np.median(even)) / float(np.median(odd)) - 1) if odd.size else None
    return {
        "records_per_step": figures.marks,
        "record_seconds": figures.mark_seconds,
        "share": figures.marks * figures.mark_seconds / float(spread[1]),
        "dropped": int(figures.dropped),
        "aa_noise_share": noise,
    }


def _checks(
    document: Mapping[str, Any], regions: Sequence[Region], training_flops: int
) -> list[dict[str, Any]]:
    step = document["step_seconds"]["mean"]
    parts = {each["name"]: each["seconds"] for each in document["parts"]}
    rest = (parts["rest"] + parts.get("around stages", 0.0)) / step
    limit = REST_LIMIT if step > SHORT_STEP_SECONDS else SHORT_REST_LIMIT
    checks = [
        _check("rest of a step", rest, limit),
        _check("cost of the records", document["overhead"]["share"], OVERHEAD_LIMIT),
        _check("records dropped", document["overhead"]["dropped"], 0),
    ]
    if regions:
        done = sum(parts.values()) + sum(each["seconds"]["mean"] for each in document["stages"])
        products = sum(each.product_flops for each in regions)
        checks.append(_check("stages and parts against the step", abs(done / step - 1), 0.03))
        checks.append(
            _check("operations against the network's", abs(products / training_flops - 1), 0.0)
        )
    return checks


def _check(name: str, value: float, limit: float) -> dict[str, Any]:
    return {
        "name": name,
        "value": value,
        "limit": limit,
        "passed": bool(value <= limit) and math.isfinite(value),
    }
