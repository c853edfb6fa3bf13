"""The profiles of several networks as text: what a step is made of, and kinds of operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from affinity.cli.layout import table


def format_table(report: Mapping[str, Any]) -> str:
    """A row for each network and ground, and one for each kind of operation of a network."""
    steps = [
        (
            row["network"],
            row["ground"],
            _number(row["step_seconds"], 1e3, 2),
            _number(row["images_per_second"]),
            *(_number(row[f"{part}_seconds"], 1e3, 2) for part in _PARTS),
            _number(row["hidden_share"], 100, 0),
            _number(row["arithmetic_intensity"]),
            _number(row["communication_intensity"], 1, 0),
        )
        for row in report["rows"]
    ]
    kinds = [
        (
            row["network"],
            row["ground"],
            row["operation"],
            _number(row["seconds"], 1e3, 2),
            _number(row["share"], 100),
            _number(row["gflops"]),
            _number(row["gbytes_per_second"]),
            _number(row["arithmetic_intensity"]),
            _number(row["efficiency"], 100, 0),
        )
        for row in report["kinds"]
    ]
    failed = [
        f"{row['network']}, {row['ground']}: check failed: {', '.join(row['failed_checks'])}"
        for row in report["rows"]
        if row["failed_checks"]
    ]
    head = (
        f"{report['batch_per_worker']} images a worker, means of {report['steps']} steps, several "
        f"workers by {report['method']}, on {report['machine']['model']}"
    )
    told = (head, table(_STEP, steps, range(2, 11)), table(_KIND, kinds, range(3, 9)))
    return "\n\n".join((*told, *(["\n".join(failed)] if failed else [])))


_PARTS = ("forward", "backward", "update", "exposed")
_STEP = (
    *("network", "on", "step ms", "images/s", *(f"{part} ms" for part in _PARTS)),
    *("hidden %", "FLOP/B", "FLOP/sent B"),
)
_KIND = (
    *("network", "on", "operation", "ms", "%", "GFLOP/s", "GB/s", "FLOP/B"),
    "of bound %",
)


def _number(value: float | None, factor: float = 1, digits: int = 1) -> str:
    return "" if value is None else f"{factor * value:.{digits}f}"
