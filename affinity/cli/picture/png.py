"""Writes a picture as PNG, with matplotlib where that is installed."""

from __future__ import annotations

from pathlib import Path

from affinity.cli.picture.blocks import Block, Rectangle
from affinity.errors import AffinityError

_PIXELS_PER_INCH = 100
_POINTS_PER_PIXEL = 72 / _PIXELS_PER_INCH
_SHARPNESS = 2


def write_png(path: Path, block: Block) -> None:
    """Draw the block into a file, two dots to each of its pixels.

    Raises AffinityError if matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.patches import Rectangle as Patch
    except ImportError:
        raise AffinityError(
            f"matplotlib, which draws a PNG such as {path}, is not installed: "
            "write an .svg instead, or pip install matplotlib"
        ) from None
    figure = Figure((block.width / _PIXELS_PER_INCH, block.height / _PIXELS_PER_INCH))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, block.width)
    axes.set_ylim(block.height, 0)
    for order, shape in enumerate(block.shapes):
        if isinstance(shape, Rectangle):
            corner = (shape.x, shape.y)
            patch = Patch(corner, shape.width, shape.height, linewidth=_POINTS_PER_PIXEL)
            patch.set(facecolor=shape.fill, edgecolor=shape.stroke, zorder=order)
            axes.add_patch(patch)
        else:
            axes.text(
                shape.x,
                shape.y,
                shape.text,
                fontsize=shape.size * _POINTS_PER_PIXEL,
                color=shape.colour,
                fontweight="bold" if shape.bold else "normal",
                horizontalalignment="center" if shape.centred else "left",
                zorder=order,
                parse_math=False,
            )
    figure.savefig(path, dpi=_PIXELS_PER_INCH * _SHARPNESS)
