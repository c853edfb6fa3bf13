"""Computes from a worker's trace how much of its exchanges was hidden behind computing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeAlias

Span: TypeAlias = tuple[float, float]

_COMPUTING = ("batch", "gradient", "update")
_EXCHANGING = ("exchange", "beside")


def hidden_share(trace: str) -> float | None:
    """The share of an exchange's time in which the worker computes as well.

    `trace` is what a worker writes by `train.trace_steps`. An exchange goes on in the spans of the
    worker's own `exchange`, its waiting included, and in those of the thread `beside` it. None
    where there is none.
    """
    events = json.loads(trace)["traceEvents"]
    exchanging, computing = _spans(events, _EXCHANGING), _spans(events, _COMPUTING)
    whole = sum(end - begin for begin, end in exchanging)
    return _common(exchanging, computing) / whole if whole else None


def _spans(events: Sequence[dict[str, Any]], names: Sequence[str]) -> list[Span]:
    """Spans in which any of these goes on, in order and without contact."""
    found: list[Span] = []
    complete = [each for each in events if each["ph"] == "X" and each["name"] in names]
    for begin, end in sorted((each["ts"], each["ts"] + each["dur"]) for each in complete):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((begin, end))
    return found


def _common(some: Sequence[Span], others: Sequence[Span]) -> float:
    """Time in which both go on."""
    total, first, second = 0.0, 0, 0
    while first < len(some) and second < len(others):
        begin = max(some[first][0], others[second][0])
        end = min(some[first][1], others[second][1])
        total += max(0.0, end - begin)
        if some[first][1] < others[second][1]:
            first += 1
        else:
            second += 1
    return total
