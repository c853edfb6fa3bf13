"""Results of `knltrain bench ops`: implementations compared over a network, and a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, log
from typing import Any

from affinity.cli.layout import columns

Row = Mapping[str, Any]


def comparisons(rows: Sequence[Row], implementations: Sequence[str]) -> list[dict[str, Any]]:
    """Compare the first of `implementations` with each other one, by operation and direction.

    `ratio` is the geometric mean of the other's time divided by the first one's, over all `layers`
    that both implementations support; these have so many `shapes`.
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
            found.append(
                {
                    "operation": operation,
                    "direction": direction,
                    "implementation": first,
                    "other": other,
                    "ratio": _mean(ratios),
                    "layers": sum(count for count, _ in ratios),
                    "shapes": len(ratios),
                }
            )
    return found


def bandwidths(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the share of a copy's bandwidth that each memory-bound operation reaches.

    By operation, direction and implementation: `share_of_copy` is the geometric mean over all
    layers, `least` the lowest of them, at shape `least_shape`.
    """
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        if row["share_of_copy"] is not None:
            key = row["operation"], row["direction"], row["implementation"]
            groups.setdefault(key, []).append(row)
    found = []
    for (operation, direction, implementation), members in groups.items():
        least = min(members, key=lambda row: float(row["share_of_copy"]))
        found.append(
            {
                "operation": operation,
                "direction": direction,
                "implementation": implementation,
                "share_of_copy": _mean([(row["layers"], row["share_of_copy"]) for row in members]),
                "least": least["share_of_copy"],
                "least_shape": least["shape"],
            }
        )
    return found


def _mean(weighted: Sequence[tuple[int, float]]) -> float:
    """Return the weighted geometric mean of values."""
    total = sum(count for count, _ in weighted)
    return exp(sum(count * log(value) for count, value in weighted) / total)


def _place(row: Row) -> tuple[str, ...]:
    return row["operation"], row["shape"], row["direction"]


_HEAD = (
    "operation", "shape", "direction", "by", "ms", "GFLOP/s", "of sgemm", "GB/s", "of copy"
)  # fmt: skip


def _cells(row: Row) -> tuple[str, ...]:
    def shown(key: str, digits: int) -> str:
        return "" if row[key] is None else f"{row[key]:.{digits}f}"

    return (
        row["operation"],
        row["shape"],
        row["direction"],
        row["implementation"] + (f"/{row['algorithm']}" if row["algorithm"] else ""),
        shown("milliseconds", 2),
        shown("gflops", 0),
        shown("share_of_sgemm", 2),
        shown("gbytes_per_second", 1),
        shown("share_of_copy", 2),
    )


def format_table(report: dict[str, Any]) -> str:
    """Return the report as text."""
    rounded = ""
    if "bfloat16_gemm_gflops" in report:
        rounded = f"in bfloat16 {report['bfloat16_gemm_gflops']:.0f}, "
    lines = [
        f"{report['network']}, batch {report['batch']}, {report['threads']} threads on "
        f"{report['machine']}, medians of {report['rounds']} alternating rounds",
        f"sgemm {report['sgemm_gflops']:.0f} GFLOP/s, {rounded}"
        f"copy {report['copy_gbytes_per_second']:.1f} GB/s (read and written)",
        *(f"{name}={value}" for name, value in report["settings"].items()),
        "",
        *columns([_HEAD, *map(_cells, report["rows"])], right=range(4, len(_HEAD))),
    ]
    for row in report["comparisons"]:
        lines.append(
            f"{row['operation']} {row['direction']}: {row['implementation']} "
            f"{row['ratio']:.2f} times as fast as {row['other']} "
            f"(geometric mean over {row['layers']} layers, {row['shapes']} shapes)"
        )
    for row in report["bandwidths"]:
        lines.append(
            f"{row['operation']} {row['direction']} by {row['implementation']}: "
            f"{row['share_of_copy']:.2f} of a copy's bandwidth "
            f"(geometric mean; least {row['least']:.2f}, {row['least_shape']})"
        )
    return "\n".join(lines)
