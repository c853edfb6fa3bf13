"""Draws the roofline: a bar for each stage and direction, under the machine's two ceilings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from knltrain.picture import empty_figure, save

ROOFLINE: Final = "roofline.png"

_MARGINS: Final = {"left": 0.1, "right": 0.97, "bottom": 0.1, "top": 0.92}
_DIRECTIONS: Final = {
    "forward": ("tab:blue", "o"),
    "backward_data": ("tab:orange", "s"),
    "backward_weights": ("tab:green", "^"),
    "backward": ("tab:red", "D"),
}


def draw_roofline(document: Mapping[str, Any], path: Path) -> None:
    """Draw worker 0's stages by what they execute; the size of a mark grows with its time.

    A bar leads from the intensity by compulsory bytes to that by bytes of the layout. Raises
    `RunFolderError` when the picture cannot be written.
    """
    figure = empty_figure(8.0, 5.5, _MARGINS)
    axes = figure.subplots()
    machine = document["machine"][0]
    peak, bandwidth = machine["sgemm_flops_per_second"], machine["copy_bytes_per_second"]
    step = document["step_seconds"]["mean"]
    lowest = highest = peak / bandwidth
    for direction, (color, marker) in _DIRECTIONS.items():
        named = direction.replace("_", "-")
        for stage in document["stages"]:
            flops = stage["executed_flops"] or stage["flops"]
            seconds = stage["seconds"]["mean"]
            if stage["direction"] != direction or not flops or not seconds:
                continue
            ends = [flops / stage["compulsory_bytes"]]
            if stage["layout_bytes"]:
                ends.append(flops / stage["layout_bytes"])
            rate = flops / seconds / 1e9
            size = 12 + 600 * seconds / step
            axes.plot(ends, [rate] * len(ends), color=color, linewidth=1, alpha=0.6)
            axes.scatter(
                ends[-1:], [rate], s=size, color=color, marker=marker, alpha=0.6, label=named
            )
            named = "_"
            lowest, highest = min(lowest, *ends), max(highest, *ends)
    edges = [lowest / 2, peak / bandwidth, highest * 2]
    axes.plot(edges, [min(peak, bandwidth * each) / 1e9 for each in edges], color="black")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("operations per byte")
    axes.set_ylabel("GFLOP/s")
    axes.set_title(
        f"{document['network']['name']}: {peak / 1e9:.0f} GFLOP/s, {bandwidth / 1e9:.0f} GB/s"
    )
    axes.legend(loc="lower right")
    save(figure, path)
