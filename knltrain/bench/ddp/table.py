"""The report of `knltrain bench ddp` as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from knltrain.bench.exchange.table import cores_each


def format_table(report: Mapping[str, Any]) -> str:
    """Return a line for each backend."""
    names = [row["backend"] for row in report["rows"]]
    lines = [
        f"DDP of fully connected layers as in VGG, {report['width']} wide, "
        f"{4 * report['parameters'] / 1e6:.1f} MB of parameters, batch {report['batch']} per rank, "
        f"{report['workers']} ranks with {cores_each(report)} each on "
        f"{report['machine']['model']}, medians of {report['rounds']} alternating rounds; "
        "losses agree",
        *(f"{name}: {version}" for name, version in report["versions"].items()),
        "",
        f"{'':<10}{'step':>12}{'least':>12}{'steps/s':>10}"
        + "".join(f"{f'to {name}':>14}" for name in names),
    ]
    for row in report["rows"]:
        fast = row["times_as_fast_as"]
        ratios = "".join(f"{f'{fast[name]:.2f}x' if name in fast else '':>14}" for name in names)
        lines.append(
            f"{row['backend']:<10}{1e3 * row['seconds']:>9.2f} ms"
            f"{1e3 * row['least_seconds']:>9.2f} ms{1 / row['seconds']:>10.1f}{ratios}".rstrip()
        )
    return "\n".join(lines)
