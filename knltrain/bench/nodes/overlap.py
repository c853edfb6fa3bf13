"""Computes from a worker's trace how much of its exchanges was hidden behind computing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from knltrain.profile.spans import Span, common, total, union

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
    whole = total(exchanging)
    return common(exchanging, computing) / whole if whole else None


def _spans(events: Sequence[dict[str, Any]], names: Sequence[str]) -> list[Span]:
    complete = (each for each in events if each["ph"] == "X" and each["name"] in names)
    return union((each["ts"], each["ts"] + each["dur"]) for each in complete)
