"""The report on scaling as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from affinity.cli.layout import table

_HEADS = (
    *("run", "nodes", "workers", "batch", "images/s", "against", "efficiency %", "5 %", "95 %"),
    *("communication %", "accuracy %", "seconds"),
)
_TEXTS = (0, 5)
"""Columns of names; the others are numbers."""


def told(report: Mapping[str, Any]) -> str:
    """The report as a table, and notes below."""
    runs = report["rows"]
    rows = [
        (
            row["run"],
            str(row["nodes"]),
            str(row["workers"]),
            str(row["batch"]),
            f"{row['images_per_second']:,.1f}",
            "" if row["base"] == place else runs[row["base"]]["run"],
            *(
                _number(row[name], 100)
                for name in ("efficiency", "lowest_efficiency", "highest_efficiency")
            ),
            _number(row["communication_share"], 100),
            _number(row["test_accuracy"], 100),
            _number(row["train_seconds"], 1),
        )
        for place, row in enumerate(runs)
    ]
    right = [column for column in range(len(_HEADS)) if column not in _TEXTS]
    shown = table(_HEADS, rows, right=right)
    return "\n".join([f"{report['scaling']} scaling", shown, *report["notes"]])


def _number(value: float | None, factor: float) -> str:
    return "" if value is None else f"{factor * value:.1f}"
