"""The report of `knltrain bench start` as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from affinity.cli.layout import columns


def format_table(report: Mapping[str, Any]) -> str:
    """Return a line for each network and cache."""
    head = ("", "kernel cache", "first step ends", "processor", "compiled", "kernels")
    rows = [
        (
            row["network"],
            row["cache"],
            f"{row['seconds']:.2f} s",
            f"{row['processor_seconds']:.2f} s",
            f"{row['kernels_compiled']:.0f}",
            f"{row['kernel_seconds']:.2f} s",
        )
        for row in report["rows"]
    ]
    workers = f"{report['workers']} worker" + "s" * (report["workers"] > 1)
    machine = report["machine"]
    lines = [
        f"from the command to the end of the first step: {workers}, {report['batch']} random "
        f"images each, on {machine['model']}, medians of {report['rounds']} alternating rounds",
        "",
        *columns([head, *rows], right=range(2, len(head))),
        "",
        "kernels: compiling and loading them for the first worker, added up over processes; "
        "processor: of all processes of the run",
    ]
    return "\n".join(lines)
