"""Computes from a worker's trace how much of its exchanges was hidden behind computing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from knltrain.profile.spans import Span, overlap

_COMPUTING = ("batch", "gradient", "update")
_EXCHANGING = ("exchange", "beside")
_READY = ("gradient ready",)


def hidden_share(trace: str) -> float | None:
    """The share of an exchange's time in which the worker computes as well: that of its profile.

    `trace` is what a worker writes by `train.trace_steps`. An exchange goes on in the spans of the
    worker's own `exchange`, its waiting included, in those of the thread `beside` it, and while
    gradients are handed to it. None where there is none.
    """
    events = json.loads(trace)["traceEvents"]
    spans = (_spans(events, names) for names in (_COMPUTING, _EXCHANGING, _READY))
    found = overlap(*spans)
    return found.hidden / found.whole if found.whole else None


def _spans(events: Sequence[dict[str, Any]], names: Sequence[str]) -> list[Span]:
    complete = (each for each in events if each["ph"] == "X" and each["name"] in names)
    return [(each["ts"], each["ts"] + each["dur"]) for each in complete]
