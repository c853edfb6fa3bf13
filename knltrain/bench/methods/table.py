"""The report of `knltrain bench methods` as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from knltrain.bench.methods.entrants import ALONE
from knltrain.bench.methods.report import ORIGINAL

Report = Mapping[str, Any]

SHARE = {"strong": "over all workers", "weak": "for each worker"}

SHOWN_COSTS = {
    "batch": "batch",
    "gradient": "gradient",
    "update": "update",
    "waiting": "waiting",
    "moving": "moving",
    "center_update": "center",
    "rest": "rest",
}
"""Costs of the training, and what they are called in the table."""


def format_table(report: Report) -> str:
    """Return accuracy and time of each entrant, then the classes of cost."""
    whole = [row for row in report["rows"] if not row["failure"]]
    failed = [row for row in report["rows"] if row["failure"]]
    lines = [
        f"{report['network']} on {report['data']['name']}, {report['epochs']} epochs in batches of "
        f"{report['batch']} {SHARE[report['scaling']]}, {report['workers']} workers, on "
        f"{report['machine']['model']}, medians of {report['rounds']} alternating rounds",
        *_link(report),
        "",
        *_results(report, whole),
        "",
        *_costs(whole),
    ]
    return "\n".join([*lines, *(f"{row['entrant']} failed: {row['failure']}" for row in failed)])


def _link(report: Report) -> list[str]:
    link = report["emulated_link"]
    if link is None:
        return []
    return [
        f"over an emulated link of {link['emulated_link_gbits']:g} Gbit/s for each worker, latency "
        f"{link['emulated_latency_us']:g} µs"
    ]


def _results(report: Report, whole: list[dict[str, Any]]) -> list[str]:
    asked = f"to {report['asked_accuracy']:.1%}"
    head = (
        f"{'':<21}{'accuracy':>9}{'least':>9}{asked:>10}{'epochs':>8}{f'by {ALONE}':>15}"
        f"{f'by {ORIGINAL}':>19}{'images/s':>10}  settings"
    )
    return [head, *map(_result, whole)]


def _result(row: Mapping[str, Any]) -> str:
    seconds, epochs = row["seconds_to_accuracy"], row["epochs_to_accuracy"]
    given = ", ".join(f"{key} {value}" for key, value in row["settings"].items() if value)
    return (
        f"{row['entrant']:<21}{row['accuracy']:>9.2%}{row['least_accuracy']:>9.2%}"
        f"{f'{seconds:.2f} s' if seconds is not None else 'never':>10}"
        f"{f'{epochs:.2f}' if epochs is not None else '-':>8}"
        f"{_times(row['faster_than_one']):>15}{_times(row['faster_than_original']):>19}"
        f"{row['images_per_second']:>10,.0f}  {given}"
    )


def _costs(whole: list[dict[str, Any]]) -> list[str]:
    return [
        "seconds before the first step; of the training time, the share of each cost, and of "
        "communication: waiting and moving. In moving is the center's update where it is not in "
        "center",
        "",
        f"{'':<21}{'reading':>9}{'set-up':>9}{'training':>10}"
        f"{''.join(f'{name:>10}' for name in SHOWN_COSTS.values())}{'communication':>15}",
        *map(_cost, whole),
    ]


def _cost(row: Mapping[str, Any]) -> str:
    costs, training = row["cost_seconds"], row["train_seconds"]
    shares = "".join(f"{costs[name] / training:>10.1%}" for name in SHOWN_COSTS)
    return (
        f"{row['entrant']:<21}{costs['reading']:>7.2f} s{costs['set_up']:>7.2f} s{training:>8.2f} s"
        f"{shares}{row['communication_share']:>15.1%}"
    )


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}x"
