"""The report of `knltrain bench methods` as a picture: accuracy over time, and classes of cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knltrain.bench.methods.table import SHOWN_COSTS
from knltrain.picture import BLUE, DASHES, GRID_COLOUR, ORANGE, empty_figure, finish, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = (BLUE, ORANGE, "#3f8f3a", "#8a3fa0", "#a08a1f", "#2a9d9d", "#b03060", "#555555")
_COST_COLOURS = ("#9dc3e6", BLUE, "#0d2f57", "#f2c078", ORANGE, "#7a2e05", GRID_COLOUR)
_SHOWN_ERRORS = 10
"""Only accuracies with at most so many times the best one's errors are shown."""
_INCHES_PER_BAR = 0.22
_COLUMNS = 4


def draw_methods(report: Mapping[str, Any], path: Path) -> None:
    """Draw the last round's accuracy over training time, and below a bar of costs for each entrant.

    Entrants that failed are left out.
    """
    rows = [row for row in report["rows"] if not row["failure"]]
    bars = 1.5 + _INCHES_PER_BAR * len(rows)
    legend = 0.2 * (1 + len(rows) // _COLUMNS)
    figure = empty_figure(9.0, 4.5 + legend + bars)
    above, below = figure.subplots(2, 1, height_ratios=(4.5 + legend, bars))
    _draw_accuracy(above, rows, report["asked_accuracy"])
    _draw_costs(below, rows)
    figure.suptitle(
        f"{report['network']} on {report['data']['name']}, {report['workers']} workers, "
        f"{report['machine']['model']}"
    )
    save(figure, path)


def _draw_accuracy(axes: Axes, rows: Sequence[Mapping[str, Any]], asked: float) -> None:
    for place, row in enumerate(rows):
        curve = row["curves"][-1]
        axes.plot(
            curve["seconds"],
            [100 * accuracy for accuracy in curve["accuracy"]],
            color=_COLOURS[place % len(_COLOURS)],
            linestyle=DASHES[place // len(_COLOURS) % len(DASHES)],
            linewidth=1.2,
            label=row["entrant"],
        )
    axes.axhline(100 * asked, color="black", linewidth=0.6)
    best = max((max(row["curves"][-1]["accuracy"]) for row in rows), default=1.0)
    # Where the curves differ.
    axes.set_ylim(100 * (1 - max(_SHOWN_ERRORS * (1 - best), 2 * (1 - asked))), 100)
    axes.set_xlabel("training time (s), without evaluations")
    axes.set_ylabel("test accuracy (%)")
    finish(axes)
    axes.legend(
        frameon=False, fontsize=7, ncols=_COLUMNS, loc="upper center", bbox_to_anchor=(0.5, -0.14)
    )


def _draw_costs(axes: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    places = range(len(rows))
    ends = [0.0] * len(rows)
    for (cost, name), colour in zip(SHOWN_COSTS.items(), _COST_COLOURS, strict=True):
        seconds = [row["cost_seconds"][cost] for row in rows]
        axes.barh(places, seconds, left=ends, color=colour, height=0.7, label=name)
        ends = [end + more for end, more in zip(ends, seconds, strict=True)]
    for place, row, end in zip(places, rows, ends, strict=True):
        share = f" {row['communication_share']:.0%} communication"
        axes.text(end, place, share, va="center", fontsize=6)
    axes.set_yticks(places, [row["entrant"] for row in rows], fontsize=7)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set_xlabel("training time of a worker (s)")
    finish(axes)
    axes.legend(
        frameon=False,
        fontsize=7,
        ncols=len(SHOWN_COSTS),
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
    )
