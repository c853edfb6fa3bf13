"""The report of `knltrain bench exchange` as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from affinity.cli.layout import columns
from affinity.numbers import format_bytes
from knltrain.bench.exchange.masters import shown
from knltrain.bench.exchange.sizes import format_size

Report = Mapping[str, Any]


def format_table(report: Report) -> str:
    """Return a line for each size and contestant, then the gain of packing, and absent peers."""
    compared = list(report["peers"])
    lines = [
        f"{report['workers']} workers with {cores_each(report)} each{_sharing(report)} on "
        f"{report['machine']['model']}, medians of {report['rounds']} alternating rounds",
        f"copy by all workers {report['copy_gbytes_per_second']:.1f} GB/s (read and written)",
        *(f"{name}={value}" for name, value in report["settings"].items()),
        *(f"{name}: {version}" for name, version in report["versions"].items()),
        "GB/s of the vectors; 'of copy' is for the bytes that must move; "
        "under a library's name: how many times as fast as it",
        "",
        *_rows(report, compared),
        *_lines_of_fit(report),
        *_masters(report),
        *_packing(report),
    ]
    lines += [
        f"{format_size(each['bytes'])} is left out: {each['reason']}" for each in report["left_out"]
    ]
    lines += [f"{name} cannot run: {reason}" for name, reason in report["absent"].items()]
    return "\n".join(lines)


def _rows(report: Report, compared: list[str]) -> list[str]:
    found, before = [], None
    for row in report["rows"]:
        size, fast = format_size(row["bytes"]), row["faster_than"]
        found.append(
            (
                size if size != before else "",
                row["contestant"],
                _time(row["seconds"]),
                _time(row["predicted_seconds"]) if row["predicted_seconds"] else "",
                _time(row["least_seconds"]),
                f"{row['gbytes_per_second']:.3g}",
                f"{row['share_of_copy']:.3g}",
                *(f"{fast[name]:.2f}x" if name in fast else "" for name in compared),
            )
        )
        before = size
    head = ("vector", "", "time", "predicted", "least", "GB/s", "of copy", *compared)
    return columns([head, *found], right=(0, *range(2, len(head))))


def _lines_of_fit(report: Report) -> list[str]:
    found = [
        f"  {name:<20}{_time(line['alpha_seconds'])} + n / ({_rate(line['beta_seconds'])})"
        for name, line in report["lines"].items()
        if line
    ]
    return ["", "fitted to all sizes, n bytes take", *found] if found else []


def _masters(report: Report) -> list[str]:
    rows = [
        (
            row["contestant"],
            format_size(row["bytes"]),
            str(row["workers"]),
            "" if row["by_line"] is None else _time(row["by_line"]),
            _time(row["by_size"]),
            "" if row["seconds"] is None else _time(row["seconds"]),
        )
        for row in shown(report["masters"])
    ]
    head = ("", "vector", "workers", "by α and β", "by the visit", "measured")
    return [
        "",
        "a tree (sync_easgd1) against one after another (original_easgd), predicted from a visit "
        "by one worker",
        *columns([head, *rows], right=range(1, len(head))),
    ]


def _packing(report: Report) -> list[str]:
    packing = report["packing"]
    if packing is None:
        return []
    rows = [
        (
            row["contestant"],
            _time(row["packed_seconds"]),
            _time(row["layers_seconds"]),
            f"{row['gain']:.2f}x",
            f"{row['predicted_gain']:.2f}x" if row["predicted_gain"] else "-",
        )
        for row in packing["rows"]
    ]
    return [
        "",
        f"{packing['network']}: {format_bytes(packing['bytes'])} packed, "
        f"or its {packing['layers']} parameter tensors one by one",
        *columns([("", "packed", "one by one", "gain", "predicted"), *rows], right=range(1, 5)),
    ]


def cores_each(report: Report) -> str:
    """Return the number of cores of each worker, as text."""
    return "1 core" if report["cores_per_worker"] == 1 else f"{report['cores_per_worker']} cores"


def _sharing(report: Report) -> str:
    many = report["workers_per_core"]
    return f", {many} on the same," if many > 1 else ""


def _time(seconds: float) -> str:
    return f"{1e6 * seconds:.1f} µs" if seconds < 1e-3 else f"{1e3 * seconds:.2f} ms"


def _rate(seconds_per_byte: float) -> str:
    return f"{1e-9 / seconds_per_byte:.2f} GB/s" if seconds_per_byte else "any speed"
