"""The report of `knltrain bench cnn` as a picture: intensity by kind of operation."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from knltrain.picture import empty_figure, finish, save

_INCHES_OF_A_BAR = 0.11


def draw_intensities(report: Mapping[str, Any], path: Path) -> None:
    """Draw operations per byte of each kind of operation, a bar for each network, to `path`.

    Both are by definition, so they are those of any number of workers and of any machine. A line
    is at this machine's sgemm by its copy: kinds with less are bound by memory at best.
    """
    found: dict[str, dict[str, float]] = {}
    for row in report["kinds"]:
        if row["arithmetic_intensity"]:
            found.setdefault(row["operation"], {})[row["network"]] = row["arithmetic_intensity"]
    networks = list(dict.fromkeys(row["network"] for row in report["rows"]))
    kinds = sorted(found, key=lambda kind: max(found[kind].values()))
    bars = len(kinds) * (len(networks) + 1)
    figure = empty_figure(8.0, 1.5 + _INCHES_OF_A_BAR * bars)
    axes = figure.subplots()
    height = 1 / (len(networks) + 1)
    for number, network in enumerate(networks):
        own = [(place, found[kind].get(network)) for place, kind in enumerate(kinds)]
        shift = height * ((len(networks) - 1) / 2 - number)
        axes.barh(
            [place + shift for place, value in own if value is not None],
            [value for _, value in own if value is not None],
            height=height,
            color=f"C{number % 10}",
            label=network,
        )
    balance = statistics.median(
        row["sgemm_gflops"] / row["copy_gbytes_per_second"] for row in report["rows"]
    )
    axes.axvline(balance, color="black", linewidth=0.8, label="sgemm by copy")
    axes.set_xscale("log")
    axes.margins(y=0.01)
    axes.set_yticks(range(len(kinds)), kinds)
    axes.set_xlabel("operations per byte")
    finish(axes)
    axes.legend(frameon=False, loc="lower right")
    figure.suptitle(f"{report['batch_per_worker']} images, {report['machine']['model']}")
    save(figure, path)
