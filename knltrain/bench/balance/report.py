"""Results of `knltrain bench balance` as a table."""

from __future__ import annotations

from typing import Any, Final

from affinity.cli.layout import columns

_METHODS: Final = {"none": "the fastest worker alone", "downpour": "all, by downpour"}
_WAYS: Final = {
    "alone": "the fastest worker alone",
    "equal": "equal shares",
    "fitted": "fitted shares",
}


def format_table(report: dict[str, Any]) -> str:
    """Return the report as text."""
    speeds = ", ".join(f"{each:g}" for each in report["speeds"])
    rows = [
        (_WAYS[row["way"]], f"{row['images_per_second']:,.0f}", f"{row['share_of_sum']:.3f}")
        for row in report["rows"]
    ]
    pushed = [(_METHODS[row["method"]], _told(row)) for row in report["increments"]]
    return "\n".join(
        [
            f"{report['network']} by {report['method']}, batch {report['batch']}, "
            f"{report['steps']} steps, medians of {report['rounds']} rounds; workers of {speeds} "
            "images/s, emulated by sleeping",
            *columns([("workers", "images/s", "of the sum"), *rows], right=(1, 2)),
            "",
            f"seconds to a test loss of {report['loss']:g}, each worker with batches of its own",
            *columns([("workers", "seconds"), *pushed], right=(1,)),
        ]
    )


def _told(row: dict[str, Any]) -> str:
    seconds = row["seconds_to_loss"]
    return "never" if seconds is None else f"{seconds:.1f}"
