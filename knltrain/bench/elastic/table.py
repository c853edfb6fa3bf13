"""The report of `knltrain bench elastic` as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from affinity.cli.layout import columns
from knltrain.bench.exchange.table import cores_each


def format_table(report: Mapping[str, Any]) -> str:
    """Return a line for each loop, and the overhead."""
    head = ("", "step", "images/s of a worker")
    rows = [
        (row["loop"], f"{1e3 * row['seconds']:.1f} ms", f"{report['batch'] / row['seconds']:.1f}")
        for row in report["rows"]
    ]
    period = report["communication_period"]
    after = "every step" if period == 1 else f"every {period} steps"
    lines = [
        f"{report['network']}, {report['parameter_bytes'] / 1e6:.1f} MB of parameters, batch "
        f"{report['batch']} per worker, {report['workers']} workers with {cores_each(report)} each "
        f"on {report['machine']['model']}, {report['version']}, medians of {report['rounds']} "
        "alternating rounds",
        "",
        *columns([head, *rows], right=range(1, len(head))),
        f"overhead of {report['method']} after {after}: {100 * report['overhead']:.1f} %",
    ]
    return "\n".join(lines)
