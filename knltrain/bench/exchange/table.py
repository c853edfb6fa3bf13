"""The report of `knltrain bench exchange` as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from affinity.sizes import format_bytes
from knltrain.bench.exchange.sizes import format_size

Report = Mapping[str, Any]


def format_table(report: Report) -> str:
    """Return a line for each size and contestant, then the gain of packing, and absent peers."""
    compared = list(report["peers"])
    head = (
        f"{'vector':>9}  {'':<20}{'time':>12}{'least':>12}{'GB/s':>9}{'of copy':>9}"
        f"{''.join(f'{name:>14}' for name in compared)}"
    )
    lines = [
        f"{report['workers']} workers with {cores_each(report)} each on "
        f"{report['machine']['model']}, medians of {report['rounds']} alternating rounds",
        f"copy by all workers {report['copy_gbytes_per_second']:.1f} GB/s (read and written)",
        *(f"{name}={value}" for name, value in report["settings"].items()),
        *(f"{name}: {version}" for name, version in report["versions"].items()),
        "GB/s of the vectors; 'of copy' is for the bytes that must move; "
        "under a library's name: how many times as fast as it",
        "",
        head,
        *_rows(report, compared),
        *_lines_of_fit(report),
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
        size = format_size(row["bytes"])
        ratios = (
            f"{row['faster_than'][name]:>13.2f}x" if name in row["faster_than"] else f"{'':>14}"
            for name in compared
        )
        found.append(
            f"{size if size != before else '':>9}  {row['contestant']:<20}"
            f"{_time(row['seconds']):>12}{_time(row['least_seconds']):>12}"
            f"{row['gbytes_per_second']:>9.3g}{row['share_of_copy']:>9.3g}{''.join(ratios)}".rstrip()
        )
        before = size
    return found


def _lines_of_fit(report: Report) -> list[str]:
    found = [
        f"  {name:<20}{_time(line['alpha_seconds'])} + n / ({_rate(line['beta_seconds'])})"
        for name, line in report["lines"].items()
        if line
    ]
    return ["", "fitted to all sizes, n bytes take", *found] if found else []


def _packing(report: Report) -> list[str]:
    packing = report["packing"]
    if packing is None:
        return []
    found = [
        "",
        f"{packing['network']}: {format_bytes(packing['bytes'])} packed, "
        f"or its {packing['layers']} parameter tensors one by one",
        f"  {'':<20}{'packed':>12}{'one by one':>12}{'gain':>9}{'predicted':>11}",
    ]
    for row in packing["rows"]:
        predicted = row["predicted_gain"]
        found.append(
            f"  {row['contestant']:<20}{_time(row['packed_seconds']):>12}"
            f"{_time(row['layers_seconds']):>12}{row['gain']:>8.2f}x"
            f"{f'{predicted:.2f}x' if predicted else '-':>11}"
        )
    return found


def cores_each(report: Report) -> str:
    """Return the number of cores of each worker, as text."""
    return "1 core" if report["cores_per_worker"] == 1 else f"{report['cores_per_worker']} cores"


def _time(seconds: float) -> str:
    return f"{1e6 * seconds:.1f} µs" if seconds < 1e-3 else f"{1e3 * seconds:.2f} ms"


def _rate(seconds_per_byte: float) -> str:
    return f"{1e-9 / seconds_per_byte:.2f} GB/s" if seconds_per_byte else "any speed"
