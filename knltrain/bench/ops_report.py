"""What `knltrain bench ops` found: how implementations compare over a network, and a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, log
from typing import Any

Row = Mapping[str, Any]


def comparisons(rows: Sequence[Row], implementations: Sequence[str]) -> list[dict[str, Any]]:
    """Compare the first of `implementations` with each other one, by operation and direction.

    `ratio` is the geometric mean of the other's time by the first one's, over all layers, where
    both have the operation: `layers` of them, of so many `shapes`.
    """
    first, *others = implementations
    times = {(*_place(row), row["implementation"]): row["milliseconds"] for row in rows}
    found = []
    for other in others:
        by_direction: dict[tuple[str, str], list[tuple[int, float]]] = {}
        for row in rows:
            theirs = times.get((*_place(row), other))
            if row["implementation"] == first and theirs is not None:
                key = row["operation"], row["direction"]
                ratio = theirs / row["milliseconds"]
                by_direction.setdefault(key, []).append((row["layers"], ratio))
        for (operation, direction), ratios in by_direction.items():
            layers = sum(count for count, _ in ratios)
            mean = exp(sum(count * log(ratio) for count, ratio in ratios) / layers)
            found.append(
                {
                    "operation": operation,
                    "direction": direction,
                    "implementation": first,
                    "other": other,
                    "ratio": mean,
                    "layers": layers,
                    "shapes": len(ratios),
                }
            )
    return found


def _place(row: Row) -> tuple[str, ...]:
    return row["operation"], row["shape"], row["direction"]


def format_table(report: dict[str, Any]) -> str:
    """Return the report as text for people."""
    lines = [
        f"{report['network']}, batch {report['batch']}, {report['threads']} threads on "
        f"{report['machine']}, medians of {report['rounds']} alternating rounds",
        f"sgemm {report['sgemm_gflops']:.0f} GFLOP/s, "
        f"copy {report['copy_gbytes_per_second']:.1f} GB/s (read and written)",
        *(f"{name}={value}" for name, value in report["settings"].items()),
        "",
        f"{'operation':<20}{'shape':<34}{'direction':<18}{'by':<20}{'ms':>9}{'GFLOP/s':>9}"
        f"{'of sgemm':>10}{'GB/s':>8}{'of copy':>9}",
    ]
    for row in report["rows"]:
        by = row["implementation"] + (f"/{row['algorithm']}" if row["algorithm"] else "")
        rate = (
            f"{row['gflops']:>9.0f}{row['share_of_sgemm']:>10.2f}{'':>17}"
            if row["gflops"]
            else f"{'':>19}{row['gbytes_per_second']:>8.1f}{row['share_of_copy']:>9.2f}"
        )
        lines.append(
            f"{row['operation']:<20}{row['shape']:<34}{row['direction']:<18}{by:<20}"
            f"{row['milliseconds']:>9.2f}{rate}"
        )
    for row in report["comparisons"]:
        lines.append(
            f"{row['operation']} {row['direction']}: {row['implementation']} "
            f"{row['ratio']:.2f} times as fast as {row['other']} "
            f"(geometric mean over {row['layers']} layers, {row['shapes']} shapes)"
        )
    return "\n".join(lines)
