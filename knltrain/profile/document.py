"""The profile of a run as one document, which `profile.json` has whole.

Its keys are explained in docs/profile.md. What was not measured is None, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from knltrain.backends.region import Region
from knltrain.clocks import READ_CENTER
from knltrain.profile.bounds import Binding, Ceilings, binding, exchange_binding
from knltrain.profile.costs import UpdateCost, total_of
from knltrain.profile.exchanged import ExchangedPart
from knltrain.profile.measured import (
    CLASSES,
    EXCHANGED,
    STATISTICS,
    Figures,
    Floats,
    WorkersMeasured,
    statistics_of,
)
from knltrain.profile.stragglers import slow_ranks

SCHEMA: Final = "knltrain.profile"
VERSION: Final = (1, 2)
"""A reader refuses another first number, and ignores keys that it does not know."""

PROFILE: Final = "profile.json"

REST_LIMIT: Final = 0.02
SHORT_REST_LIMIT: Final = 0.10
SHORT_STEP_SECONDS: Final = 0.02
"""Of shorter steps, what Python does around the parts is a larger share."""

OVERHEAD_LIMIT: Final = 0.02
CLOCKS_LIMIT: Final = 0.03

_MEASURED: Final = ("batch", "gradient", "update", "waiting", "moving", "center_update")
"""Classes with clocks of their own; what is left of a step is its rest."""


def profile_document(
    run: Mapping[str, Any],
    regions: Sequence[Region],
    exchanged: Sequence[ExchangedPart],
    found: WorkersMeasured,
    training_flops: int,
    updates: Mapping[str, UpdateCost],
) -> dict[str, Any]:
    """The document of a run; `run` are facts about it, which it begins with.

    `regions` are those of rank 0, `exchanged` the parts that are exchanged by themselves, in their
    order, or all parameters. `training_flops` are the products of a step by definition,
    `updates` what the optimizer's step costs by layer.
    """
    own = found.own
    like = found.like_own
    step = np.mean([found.step_seconds[rank] for rank in like], axis=0)
    ceilings = _ceilings(found)
    parts = list(_parts_of_step(found, float(step[0]), updates, ceilings))
    ranks = [_rank(rank, found) for rank in range(len(found.figures))]
    thirds = np.transpose([found.thirds[rank] for rank in like])
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "version": list(VERSION),
        **run,
        "window": {
            "first_step": int(own.figures.first_step),
            "steps": int(own.figures.steps),
            "seconds": float(own.step_seconds.sum()),
            "thirds": [float(each[each > 0].mean()) for each in thirds if each.any()],
        },
        "step_seconds": _named(step),
        "overhead": _overhead(own.figures, own.step_seconds),
        "machine": [
            {
                "rank": rank,
                "threads": int(each.threads),
                "sgemm_flops_per_second": each.flops_per_second,
                "product_flops_per_second": each.product_flops_per_second,
                "copy_bytes_per_second": each.bytes_per_second,
                "link_bytes_per_second": each.link_bytes_per_second or None,
            }
            for rank, each in enumerate(found.figures)
        ],
        "ranks": ranks,
        "stragglers": slow_ranks(ranks),
        "stages": [_stage(number, each, found, ceilings) for number, each in enumerate(regions)],
        "parts": parts,
        "updates": list(_updates(updates, parts)),
        "exchanges": [
            _exchange(number, part, found, ceilings) for number, part in enumerate(exchanged)
        ],
        "communication": _communication(found, run.get("nodes", 1)),
        "efficiency": _efficiency(found),
    }
    document["checks"] = list(_checks(document, regions, training_flops, own.figures))
    return document


def _ceilings(found: WorkersMeasured) -> Ceilings:
    """Of workers like rank 0, the mean."""
    like = np.mean([found.figures[rank].ceilings for rank in found.like_own], axis=0)
    return Ceilings(*map(float, like))


def _named(statistics: Any) -> dict[str, float]:
    return dict(zip(STATISTICS, map(float, statistics), strict=True))


def _of_class(classes: Floats) -> dict[str, float]:
    return dict(zip(CLASSES, map(float, classes), strict=True))


def _stage(
    number: int, region: Region, found: WorkersMeasured, ceilings: Ceilings
) -> dict[str, Any]:
    flops = region.flops if region.executed_flops is None else region.executed_flops
    moved = region.compulsory_bytes if region.layout_bytes is None else region.layout_bytes
    calls, seconds = float(found.own.calls[number]), found.regions[:, number]
    defined = region.flops, region.compulsory_bytes
    by_rank = None
    if found.by_rank is not None:
        like = set(found.like_own)
        by_rank = [
            float(each[number]) if rank in like else None for rank, each in enumerate(found.by_rank)
        ]
    return {
        "place": number,
        "name": region.name,
        "layers": list(region.layers),
        "class": region.kind,
        "direction": region.direction,
        "algorithm": region.algorithm,
        "does_for": list(region.does_for),
        "calls": calls,
        "seconds": _named(seconds),
        "by_rank": by_rank,
        "flops": region.flops,
        "executed_flops": region.executed_flops,
        "compulsory_bytes": region.compulsory_bytes,
        "layout_bytes": region.layout_bytes,
        "unfused_bytes": region.unfused_bytes,
        **_rates(defined, (flops, moved), float(seconds[0]), calls, ceilings),
    }


def _rates(
    defined: tuple[int, int],
    executed: tuple[int, int],
    seconds: float,
    calls: float,
    ceilings: Ceilings,
) -> dict[str, Any]:
    """By definition: intensity, rates and their shares; by what is executed: bound, efficiency."""
    flops, moved = defined
    bound = binding(*executed, ceilings.bounds, seconds, calls) if seconds else None
    by_flops = flops / seconds if seconds and flops else None
    by_bytes = moved / seconds if seconds and moved else None
    return {
        "intensity": flops / moved if moved else None,
        "flops_per_second": by_flops,
        "share_of_sgemm": None if by_flops is None else by_flops / ceilings.flops_per_second,
        "bytes_per_second": by_bytes,
        "share_of_copy": None if by_bytes is None else by_bytes / ceilings.bytes_per_second,
        **_bound(bound, seconds),
    }


def _bound(bound: Binding | None, seconds: float) -> dict[str, Any]:
    return {
        "bound": None if bound is None else bound.bound,
        "bound_seconds": None if bound is None else bound.seconds,
        "efficiency": None if bound is None else bound.seconds / seconds,
    }


def _parts_of_step(
    found: WorkersMeasured, step: float, updates: Mapping[str, UpdateCost], ceilings: Ceilings
) -> Iterator[dict[str, Any]]:
    """What of a step is no stage's; its rest is what no clock has measured."""
    like = [found.class_seconds[rank] for rank in found.like_own]
    seconds = _of_class(np.mean(like, axis=0))
    inside = float(found.regions[0].sum())
    for name in _MEASURED:
        if name == "gradient":
            shown = "around stages" if inside else name
            yield {"name": shown, "seconds": seconds[name] - inside}
            continue
        rates = {}
        if name == "update" and updates:
            whole = total_of(updates.values())
            rates = _rates(whole, whole, seconds[name], 1, ceilings)
        yield {"name": name, "seconds": seconds[name], **rates}
    yield {"name": "rest", "seconds": step - sum(seconds[name] for name in _MEASURED)}


def _updates(
    updates: Mapping[str, UpdateCost], parts: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """The optimizer's step is one pass over all layers, of which each has its share by bytes.

    Rates, bound and efficiency are those of the pass.
    """
    (whole,) = (each for each in parts if each["name"] == "update")
    moved = total_of(updates.values()).moved_bytes
    for layer, cost in updates.items():
        share, least = cost.moved_bytes / moved, whole["bound_seconds"]
        yield {
            "layer": layer,
            "flops": cost.flops,
            "compulsory_bytes": cost.moved_bytes,
            **{name: value for name, value in whole.items() if name != "name"},
            "seconds": share * whole["seconds"],
            "bound_seconds": None if least is None else share * least,
        }


def _exchange(
    number: int, part: ExchangedPart, found: WorkersMeasured, ceilings: Ceilings
) -> dict[str, Any]:
    each = [None] * len(EXCHANGED) if found.exchanges is None else found.exchanges[:, number]
    seconds = {
        name: None if value is None else float(value)
        for name, value in zip(EXCHANGED, each, strict=True)
    }
    moving, bound = seconds["moving"], None
    if moving:
        bound = exchange_binding(part.exchanged_bytes, part.wire_bytes, ceilings, moving)
    return {
        "place": number,
        "layers": list(part.layers),
        "packed_bytes": part.packed_bytes,
        "wire_bytes": part.wire_bytes,
        "exchanged_bytes": part.exchanged_bytes,
        "communication_intensity": part.communication_intensity,
        **{f"{name}_seconds": value for name, value in seconds.items()},
        **_bound(bound, moving or 0.0),
    }


def _rank(rank: int, found: WorkersMeasured) -> dict[str, Any]:
    figures, useful = found.figures[rank], found.figures[rank].useful_seconds
    return {
        "rank": rank,
        "steps": int(figures.steps),
        "step_seconds": _named(found.step_seconds[rank]),
        "classes": _of_class(found.class_seconds[rank]),
        "useful_seconds": useful,
        "noise_cv": figures.useful_deviation / useful if useful else None,
        "late_steps": int(figures.late_steps),
        "last_share": None if found.last_shares is None else found.last_shares[rank],
    }


def _shmcaffe(found: WorkersMeasured) -> dict[str, Any] | None:
    """ShmCaffe's times of an iteration, and its model of it: with a period, of all its steps.

    Titer = max(Tcomp, Twwi + Tugw) + Trgw + Tulw. Means over the workers that visit the center:
    all, or the roots of groups.
    """
    ranks = [rank for rank, each in enumerate(found.visits) if each[READ_CENTER]]
    if not ranks:
        return None
    counts, seconds = np.split(np.mean([found.visits[rank] for rank in ranks], axis=0), 2)
    visits = counts[READ_CENTER]
    trgw, tulw, twwi, tugw = (
        float(each / count) if count else None for count, each in zip(counts, seconds, strict=True)
    )
    pushed, visited = (twwi or 0.0) + (tugw or 0.0), (trgw or 0.0) + (tulw or 0.0)
    classes = [_of_class(found.class_seconds[rank]) for rank in ranks]
    tcomp = np.mean([each["batch"] + each["gradient"] + each["update"] for each in classes])
    steps = [found.step_seconds[rank][0] for rank in ranks]
    tcomp, measured = tcomp / visits, np.mean(steps) / visits
    return {
        "ranks": ranks,
        "visits_per_step": float(visits),
        "tcomp": float(tcomp),
        "trgw": trgw,
        "tulw": tulw,
        "twwi": twwi,
        "tugw": tugw,
        "titer_model": float(max(tcomp, pushed)) + visited,
        "titer_measured": float(measured),
    }


def _communication(found: WorkersMeasured, nodes: int) -> dict[str, Any]:
    whole = float(np.mean([each.union_seconds for each in found.figures]))
    hidden = float(np.mean([each.hidden_seconds for each in found.figures]))
    waiting = float(np.mean([_of_class(each)["waiting"] for each in found.class_seconds]))
    waits_apart = nodes == 1 and all(each.waits_apart for each in found.figures)
    return {
        "union_seconds": whole,
        "hidden_seconds": hidden,
        "exposed_seconds": whole - hidden,
        "exposed_wait_seconds": waiting if waits_apart else None,
        "hidden_share": hidden / whole if whole and len(found.figures) > 1 else None,
        "shmcaffe": _shmcaffe(found),
    }


def _efficiency(found: WorkersMeasured) -> dict[str, Any]:
    """Load balance x communication efficiency = parallel efficiency, as the POP centres define."""
    useful = [each.useful_seconds for each in found.figures]
    wall = max(float(each[0]) for each in found.step_seconds)
    if len(useful) == 1 or not max(useful):
        return {"load_balance": None, "communication": None, "parallel": None}
    balance, communication = float(np.mean(useful)) / max(useful), max(useful) / wall
    return {
        "load_balance": balance,
        "communication": communication,
        "parallel": balance * communication,
    }


def _overhead(figures: Figures, steps: Floats) -> dict[str, Any]:
    even, odd = steps[::2], steps[1::2]
    noise = abs(float(np.median(even)) / float(np.median(odd)) - 1) if odd.size else None
    records = figures.marks + figures.watches
    cost = figures.marks * figures.mark_seconds + figures.watches * figures.watch_seconds
    return {
        "records_per_step": records,
        "marks_per_step": figures.marks,
        "watches_per_step": figures.watches,
        "record_seconds": cost / records if records else 0.0,
        "mark_seconds": figures.mark_seconds,
        "watch_seconds": figures.watch_seconds,
        "fold_seconds": figures.fold_seconds,
        "share": cost / float(statistics_of(steps)[1]),
        "dropped": int(figures.dropped),
        "aa_noise_share": noise,
    }


def _checks(
    document: Mapping[str, Any],
    regions: Sequence[Region],
    training_flops: int,
    own: Figures,
) -> Iterator[dict[str, Any]]:
    step = document["step_seconds"]["mean"]
    parts = {each["name"]: each["seconds"] for each in document["parts"]}
    rest = (parts["rest"] + parts.get("around stages", 0.0)) / step
    limit = REST_LIMIT if step > SHORT_STEP_SECONDS else SHORT_REST_LIMIT
    yield _check("rest of a step", abs(rest), limit)
    wall = document["ranks"][0]["step_seconds"]["mean"]
    apart = abs(own.training_seconds / wall - 1)
    yield _check("clocks of the run against a clock of its own", apart, CLOCKS_LIMIT)
    exposed = own.union_seconds - own.hidden_seconds
    apart = max(0.0, (own.useful_seconds + exposed) / wall - 1)
    yield _check("computing and exposed exchange against the step", apart, CLOCKS_LIMIT)
    yield _check("cost of the records", document["overhead"]["share"], OVERHEAD_LIMIT)
    yield _check("records dropped", document["overhead"]["dropped"], 0)
    if regions and training_flops:
        products = sum(each.product_flops for each in regions)
        apart = abs(products / training_flops - 1)
        yield _check("operations against the network's", apart, 0.0)


def _check(name: str, value: float, limit: float) -> dict[str, Any]:
    passed = math.isfinite(value) and value <= limit
    return {"name": name, "value": value, "limit": limit, "passed": passed}
