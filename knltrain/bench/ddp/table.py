"""The report of `knltrain bench ddp` as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from affinity.cli.layout import columns
from knltrain.bench.exchange.table import cores_each


def format_table(report: Mapping[str, Any]) -> str:
    """Return a line for each backend."""
    names = [row["backend"] for row in report["rows"]]
    head = ("", "step", "least", "steps/s", *(f"to {name}" for name in names))
    rows = [
        (
            row["backend"],
            f"{1e3 * row['seconds']:.2f} ms",
            f"{1e3 * row['least_seconds']:.2f} ms",
            f"{1 / row['seconds']:.1f}",
            *(
                f"{row['times_as_fast_as'][name]:.2f}x" if name in row["times_as_fast_as"] else ""
                for name in names
            ),
        )
        for row in report["rows"]
    ]
    lines = [
        f"DDP of fully connected layers as in VGG, {report['width']} wide, "
        f"{4 * report['parameters'] / 1e6:.1f} MB of parameters, batch {report['batch']} per rank, "
        f"{report['workers']} ranks with {cores_each(report)} each on "
        f"{report['machine']['model']}, medians of {report['rounds']} alternating rounds; "
        "losses agree",
        *(f"{name}: {version}" for name, version in report["versions"].items()),
        "",
        *columns([head, *rows], right=range(1, len(head))),
    ]
    return "\n".join(lines)
