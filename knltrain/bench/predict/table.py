"""The report of `knltrain bench predict` as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from affinity.cli.layout import columns

_HEAD = (
    "", "Gbit/s", "computing, ms", "waiting, ms", "exchange, ms", "least, ms", "overlaps",
    "predicted, ms", "measured, ms", "error, %", "rounds, %", "naive, %",
)  # fmt: skip
_WAITING = 3
"""The column of what workers wait for the slowest."""


def format_table(report: Mapping[str, Any]) -> str:
    """Return a line for each method and link."""
    machine = report["machine"]
    where = (
        f"{report['workers']} workers of one node"
        if report["nodes"] == 1
        else f"{report['nodes']} hosts with a worker each (network namespaces of one machine), the "
        f"model fitted to links of {', '.join(f'{each:g}' for each in report['fitted_gbits'])} "
        "Gbit/s"
    )
    if (sharing := report["workers_per_core"]) > 1:
        where += f"; {sharing} workers on a core"
    cells = [_HEAD, *map(_cells, report["rows"])]
    if report["nodes"] > 1:  # where the wait is part of the exchange
        cells = [(*row[:_WAITING], *row[_WAITING + 1 :]) for row in cells]
    lines = [
        f"{report['network']}, batch {report['batch_per_worker']} per worker, {where}; medians of "
        f"{report['rounds']} alternating rounds of {report['steps']} steps or more",
        f"{machine['model']}: sgemm {machine['before']['sgemm_gflops']:.0f} GFLOP/s, copy "
        f"{machine['before']['copy_gbytes_per_second']:.1f} GB/s",
        "",
        *columns(cells, right=range(1, len(cells[0]))),
        "",
    ]
    if report["rows"]:
        lines.append(
            f"{report['met']} of {len(report['rows'])} within 10 % or the spread of the rounds; "
            f"median error {report['median_error']:.1%}, of the naive model "
            f"{report['median_naive_error']:.1%}"
        )
    lines += [f"{name} failed: {reason}" for name, reason in report["failures"].items()]
    return "\n".join(lines)


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    link = row["link_gbits"]
    return (
        row["method"],
        "" if link is None else f"{link:g}",
        f"{1e3 * row['computing_seconds']:.2f}",
        f"{1e3 * row['waiting_seconds']:.2f}",
        f"{1e3 * row['exchange_seconds']:.2f}",
        f"{1e3 * row['least_exchange_seconds']:.2f}",
        "yes" if row["overlaps"] else "no",
        f"{1e3 * row['predicted_seconds']:.2f}",
        f"{1e3 * row['measured_seconds']:.2f}",
        f"{100 * row['error']:+.1f}",
        f"{100 * row['spread']:.1f}",
        f"{100 * row['naive_error']:+.1f}",
    )
