"""The table of methods as text and as data (`knltrain methods`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from knltrain.config.methods import METHODS

LEGEND = (
    "i: worker; W: its parameters; g: its gradient; C: the center; α: moving_rate, or rho * η, or "
    "beta / workers (left out: 0.9 / workers); τ: communication_period; η: learning rate; "
    "μ, δ: momentum; ηo: center_learning_rate; a: averaging_rate; m: mixing"
)


def listed() -> list[dict[str, Any]]:
    """Return name, schedule, equation, paper and default settings of each method."""
    return [
        {
            "name": facts.name,
            "schedule": facts.schedule,
            "equation": facts.equation,
            "paper": facts.paper,
            "settings": {
                f"{table}.{key}": value
                for table, values in (("exchange", facts.exchange), ("optimizer", facts.optimizer))
                for key, value in values.items()
            },
        }
        for facts in METHODS.values()
    ]


def format_table(methods: Sequence[Mapping[str, Any]]) -> str:
    """Return `listed` as text, two lines for each method."""
    lines = [LEGEND, ""]
    for method in methods:
        settings = ", ".join(f"{key} = {_toml(value)}" for key, value in method["settings"].items())
        lines.append(f"{method['name']:<21}{method['schedule']:<13}{method['equation']}")
        lines.append(f"{'':<34}{method['paper']}{f'; {settings}' if settings else ''}")
    return "\n".join(lines)


def _toml(value: object) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return str(value).lower() if isinstance(value, bool) else str(value)
