"""Confusion matrices, as files and pictures: which classes were found for the images of each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeAlias

from knltrain.errors import RunFolderError
from knltrain.files.durable import reason_of
from knltrain.picture import empty_figure, save

Counts: TypeAlias = Sequence[Sequence[int]]
"""A row for each class of images, with a number for each class that was found."""

CONFUSION: Final = "confusion.csv"
CONFUSION_PICTURE: Final = "confusion.png"

_MOST_WRITTEN: Final = 20
"""Classes up to which numbers fit into the picture."""
_MOST_TICKS: Final = 25


def confusion_to_csv(counts: Counts) -> str:
    """The matrix as a table without a heading."""
    return "".join(",".join(map(str, row)) + "\n" for row in counts)


def confusion_from_csv(path: Path) -> Counts:
    """The matrix of a file; RunFolderError if it holds none."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        counts = [[_count(text) for text in line.split(",")] for line in lines]
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{path}: cannot be read ({reason_of(error)}): damaged") from error
    if not counts or any(len(row) != len(counts) for row in counts):
        raise RunFolderError(
            f"{path}: has {len(counts)} rows: expected as many as columns, those of a run"
        )
    return counts


def draw_counts(counts: Counts, path: Path, title: str) -> None:
    """Draw a matrix as PNG: the share of each row in colours, numbers where there is room.

    Raises RunFolderError where the picture cannot be written.
    """
    classes = len(counts)
    shares = [[100 * each / max(sum(row), 1) for each in row] for row in counts]
    figure = empty_figure(8.0, 7.0)
    axes = figure.subplots()
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=100)
    figure.colorbar(image, ax=axes, label="share of the images of a class (%)")
    for row in range(classes if classes <= _MOST_WRITTEN else 0):
        for column in range(classes):
            colour = "white" if shares[row][column] > 50 else "black"
            text = f"{counts[row][column]:,}" if counts[row][column] else ""
            axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=8)
    ticks = range(0, classes, -(-classes // _MOST_TICKS))
    axes.set_xticks(ticks)
    axes.set_yticks(ticks)
    axes.set_xlabel("class that was found")
    axes.set_ylabel("class of the image")
    figure.suptitle(title, parse_math=False)
    save(figure, path)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise ValueError(f"{text[:20]!r} is no count")
    return int(text)
