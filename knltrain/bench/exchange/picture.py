"""The report of `knltrain bench exchange` as a picture: bandwidth over the vector's size."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from knltrain.bench.exchange.sizes import format_size
from knltrain.picture import BLUE, DASHES, ORANGE, empty_figure, finish, save


def draw_bandwidths(report: Mapping[str, Any], path: Path) -> None:
    """Draw GB/s of every contestant that exchanges over the sizes, both logarithmic, to `path`."""
    figure = empty_figure(8.0, 5.0)
    axes = figure.subplots()
    drawn = {BLUE: 0, ORANGE: 0}
    for name in report["lines"]:
        points = [row for row in report["rows"] if row["contestant"] == name]
        colour = ORANGE if name in report["peers"] else BLUE
        axes.plot(
            [row["bytes"] for row in points],
            [row["gbytes_per_second"] for row in points],
            color=colour,
            linestyle=DASHES[drawn[colour] % len(DASHES)],
            linewidth=1.5,
            marker="o",
            markersize=4,
            label=name,
        )
        drawn[colour] += 1
    sizes = sorted({row["bytes"] for row in report["rows"]})
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(sizes, [format_size(size) for size in sizes], rotation=45, ha="right")
    axes.minorticks_off()
    axes.set_xlabel("vector")
    axes.set_ylabel("bandwidth (GB/s of the vector)")
    finish(axes)
    axes.legend(frameon=False)
    figure.suptitle(f"exchange between {report['workers']} workers, {report['machine']['model']}")
    save(figure, path)
