"""The picture of a report on scaling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from knltrain.picture import BLUE, ORANGE, empty_figure, finish, save


def draw_scaling(report: Mapping[str, Any], path: Path) -> None:
    """Draw efficiency with its intervals, and speed beside the ideal, over the workers.

    Where runs were tested on their way, their accuracy is drawn over the seconds. Raises
    `RunFolderError` when the picture cannot be written.
    """
    rows = report["rows"]
    tested = [row for row in rows if len(row["accuracy_by_seconds"]) > 1]
    panels = 3 if tested else 2
    figure = empty_figure(4.0 * panels, 3.6)
    left, right, *more = figure.subplots(1, panels)
    lines = list(_lines(rows))
    shades = [1.0 - 0.6 * number / len(lines) for number in range(len(lines))]
    for line, shade in zip(lines, shades, strict=True):
        _draw_line(left, right, line, shade, len(lines) == 1)
    left.axhline(100, color="grey", linewidth=0.8)
    left.set_ylim(0, max(110.0, *(105 * row["efficiency"] for row in rows)))
    left.set_ylabel("efficiency, %")
    right.set_ylabel("images/s")
    right.legend(frameon=False)
    workers = sorted({row["workers"] for row in rows})
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.set_xticks(workers, [str(each) for each in workers])
        axes.set_xlabel("workers")
        finish(axes)
    for axes in more:
        for row in tested:
            seconds, accuracies = zip(*row["accuracy_by_seconds"], strict=True)
            axes.plot(seconds, [100 * each for each in accuracies], label=row["run"])
        axes.set_xlabel("seconds of training")
        axes.set_ylabel("test accuracy, %")
        axes.legend(frameon=False)
        finish(axes)
    figure.suptitle(f"{report['network']} by {report['method']}, {report['scaling']} scaling")
    save(figure, path)


def _lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """Rows that are compared with the same one, which comes first."""
    for place in dict.fromkeys(row["base"] for row in rows):
        others = [row for n, row in enumerate(rows) if row["base"] == place and n != place]
        yield [rows[place], *others]


def _draw_line(
    left: Any, right: Any, line: Sequence[Mapping[str, Any]], shade: float, is_alone: bool
) -> None:
    base, workers = line[0], [row["workers"] for row in line]
    shares = [100 * row["efficiency"] for row in line]
    spread = [list(each) for each in zip(*map(_below_and_above, line), strict=True)]
    left.errorbar(workers, shares, yerr=spread, color=BLUE, alpha=shade, marker="o", capsize=3)
    speeds = [row["images_per_second"] for row in line]
    ideal = [speeds[0] / workers[0] * each for each in workers]
    told = "measured" if is_alone else f"measured, from a batch of {base['batch']}"
    right.plot(workers, ideal, color="grey", alpha=shade, linestyle="--", label="ideal")
    right.plot(workers, speeds, color=ORANGE, alpha=shade, marker="o", label=told)


def _below_and_above(row: Mapping[str, Any]) -> Iterator[float]:
    for name, sign in (("lowest_efficiency", 1), ("highest_efficiency", -1)):
        edge = row[name]
        yield 0.0 if edge is None else max(0.0, 100 * sign * (row["efficiency"] - edge))
