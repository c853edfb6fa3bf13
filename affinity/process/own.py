"""What a started worker knows of its place: the launcher writes it into the environment as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from affinity.errors import PlacementError
from affinity.placement.plan import Arena, MemoryPlan, Placement

PLACEMENT_VARIABLE = "AFFINITY_PLACEMENT"


def own_placement(environment: Mapping[str, str] = os.environ) -> Placement | None:
    """The place that this process was started for, None if nobody gave it one.

    Raises PlacementError if what the variable holds is damaged.
    """
    text = environment.get(PLACEMENT_VARIABLE)
    return decode_placement(text) if text else None


def encode_placement(placement: Placement) -> str:
    """One line of JSON that `decode_placement` makes an equal `Placement` of."""
    return json.dumps(asdict(placement), separators=(",", ":"))


def decode_placement(text: str) -> Placement:
    """The placement in JSON; PlacementError if that is damaged or of another version."""
    try:
        fields = _tuples(json.loads(text))
        memory = fields.pop("memory")
        arenas = tuple(Arena(**arena) for arena in memory.pop("arenas"))
        return Placement(**fields, memory=MemoryPlan(**memory, arenas=arenas))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise PlacementError(
            f"{PLACEMENT_VARIABLE} holds {text[:60]!r}, which describes no placement ({error}): "
            "unset it, or let the launcher set it"
        ) from None


def _tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
