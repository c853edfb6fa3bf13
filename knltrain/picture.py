"""How pictures look, whatever they show."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knltrain.errors import RunFolderError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE = "#1f5fa8"
ORANGE = "#c2500a"
GRID_COLOUR = "#d9d9d9"
DASHES = ("-", "--", ":", "-.")


def empty_figure(width: float, height: float, margins: Mapping[str, float] | None = None) -> Figure:
    """A figure of so many inches, whose parts make room for each other, unless it has margins.

    To find room takes as long as to draw. Margins are as matplotlib's `subplots_adjust` takes them.
    """
    # On a slow machine the first picture ever would tell of a font cache where errors belong.
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    from matplotlib.figure import Figure

    if margins is None:
        return Figure(figsize=(width, height), dpi=150, layout="constrained")
    figure = Figure(figsize=(width, height), dpi=150)
    figure.subplots_adjust(**margins)
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write a figure whole, as its name says, or else as PNG; RunFolderError if it cannot be."""
    partial = path.with_name(f".{path.name}.partial")
    kind = path.suffix[1:] if path.suffix in (".svg", ".pdf") else "png"
    fast: dict[str, Any] = {"pil_kwargs": {"compress_level": 1}} if kind == "png" else {}
    try:
        figure.savefig(partial, format=kind, **fast)
        partial.replace(path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise RunFolderError(
            f"{path}: cannot be written ({error.strerror}): make room or check the permissions"
        ) from error


def finish(axes: Axes) -> None:
    """Put a grid behind what is drawn, and take the frame's upper and right side away."""
    axes.grid(visible=True, color=GRID_COLOUR, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
