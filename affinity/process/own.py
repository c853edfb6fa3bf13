"""A started worker's own place: the launcher writes it into the environment as JSON."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from affinity.errors import PlacementError

if TYPE_CHECKING:  # Whoever only looks whether the variable is set needs none of it.
    from affinity.placement.plan import Placement

PLACEMENT_VARIABLE = "AFFINITY_PLACEMENT"


def own_placement(environment: Mapping[str, str] = os.environ) -> Placement | None:
    """The placement of this process, without its reasons; None if it has none.

    Raises PlacementError if the variable is damaged.
    """
    text = environment.get(PLACEMENT_VARIABLE)
    return decode_placement(text) if text else None


def encode_placement(placement: Placement) -> str:
    """One line of JSON that `decode_placement` makes a `Placement` of: equal, but for `reasons`.

    These are for people; all that a worker starts inherits the variable.
    """
    import json
    from dataclasses import asdict, replace

    memory = replace(placement.memory, reasons=())
    facts = asdict(replace(placement, memory=memory, reasons=()))
    return json.dumps(facts, separators=(",", ":"))


def decode_placement(text: str) -> Placement:
    """The placement in JSON; PlacementError if that is damaged.

    Facts of a later version that this one does not know are left out.
    """
    import json

    from affinity.placement.plan import Arena, MemoryPlan, Placement

    try:
        facts = _tuples(json.loads(text))
        memory = _known(MemoryPlan, facts.pop("memory"))
        arenas = tuple(Arena(**_known(Arena, arena)) for arena in memory.pop("arenas"))
        return Placement(**_known(Placement, facts), memory=MemoryPlan(**memory, arenas=arenas))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise PlacementError(
            f"{PLACEMENT_VARIABLE} holds {text[:60]!r}, which describes no placement ({error}): "
            "unset it, or let the launcher set it"
        ) from None


def _known(kind: type, facts: dict[str, Any]) -> dict[str, Any]:
    from dataclasses import fields

    return {field.name: facts[field.name] for field in fields(kind) if field.name in facts}


def _tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
