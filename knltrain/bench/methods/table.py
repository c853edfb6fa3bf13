"""The report of `knltrain bench methods` as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from affinity.cli.layout import columns
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
        "",
        *_processors(whole),
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
    head = (
        "", "accuracy", "least", f"to {report['asked_accuracy']:.1%}", "epochs", f"by {ALONE}",
        f"by {ORIGINAL}", "images/s", "predicted", "settings",
    )  # fmt: skip
    return columns([head, *map(_result, whole)], right=range(1, len(head) - 1))


def _result(row: Mapping[str, Any]) -> tuple[str, ...]:
    seconds, epochs = row["seconds_to_accuracy"], row["epochs_to_accuracy"]
    return (
        row["entrant"],
        f"{row['accuracy']:.2%}",
        f"{row['least_accuracy']:.2%}",
        f"{seconds:.2f} s" if seconds is not None else "never",
        f"{epochs:.2f}" if epochs is not None else "-",
        _times(row["faster_than_one"]),
        _times(row["faster_than_original"]),
        f"{row['images_per_second']:,.0f}",
        _rate(row["predicted_images_per_second"]),
        ", ".join(f"{key} {value}" for key, value in row["settings"].items() if value),
    )


def _costs(whole: list[dict[str, Any]]) -> list[str]:
    head = ("", "reading", "set-up", "training", *SHOWN_COSTS.values(), "communication", "of wall")
    return [
        "seconds before the first step; of the training time, the share of each cost, and of "
        "communication: waiting and moving. In moving is the center's update where it is not in "
        "center. Of a clock of its own, from a worker's making to its end: the share that all "
        "classes but the rest come to",
        "",
        *columns([head, *map(_cost, whole)], right=range(1, len(head))),
    ]


def _cost(row: Mapping[str, Any]) -> tuple[str, ...]:
    costs, training = row["cost_seconds"], row["train_seconds"]
    return (
        row["entrant"],
        f"{costs['reading']:.2f} s",
        f"{costs['set_up']:.2f} s",
        f"{training:.2f} s",
        *(f"{costs[name] / training:.1%}" for name in SHOWN_COSTS),
        f"{row['communication_share']:.1%}",
        f"{row['clocks_share']:.1%}",
    )


def _processors(whole: list[dict[str, Any]]) -> list[str]:
    head = ("", "processor ms", "of these to communicate, ms", "moved MiB")
    rows = [
        (
            row["entrant"],
            f"{1e3 * row['processor_seconds']:.3f}",
            "-"
            if row["communication_processor_seconds"] is None
            else f"{1e3 * row['communication_processor_seconds']:.3f}",
            "-" if row["moved_bytes"] is None else f"{row['moved_bytes'] / 2**20:.2f}",
        )
        for row in whole
    ]
    return [
        "processor time of all workers in a step, and what of it the method 'none' with as many "
        "workers does not need; what all move over the segment in a step",
        "",
        *columns([head, *rows], right=(1, 2, 3)),
    ]


def _rate(images_per_second: float | None) -> str:
    return "-" if images_per_second is None else f"{images_per_second:,.0f}"


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}x"
