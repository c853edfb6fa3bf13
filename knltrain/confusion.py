"""Confusion matrices, as files and pictures: which classes were found for the images of each."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from knltrain.errors import RunFolderError
from knltrain.files.durable import reason_of

Counts: TypeAlias = Sequence[Sequence[int]]
"""A row for each class of images, with a number for each class that was found."""

CONFUSION: Final = "confusion.csv"
CONFUSION_PICTURE: Final = "confusion.png"

_MOST_WRITTEN: Final = 20
"""Classes up to which numbers fit into the picture."""
_MOST_TICKS: Final = 25
_LONGEST: Final = 20
"""Characters of a name in the picture."""
_LEVEL: Final = 3
"""Characters of the longest name up to which names are not turned."""
_MARGINS: Final = {"left": 0.08, "right": 1.0, "bottom": 0.08, "top": 0.95}
"""Those of a picture with such names."""


@dataclass(frozen=True, slots=True)
class Confusion:
    """A matrix, and the names of its classes; older runs kept none."""

    counts: Counts
    class_names: Sequence[str] = ()


def confusion_to_csv(found: Confusion) -> str:
    """The matrix as a table; its first row and column are the names of the classes."""
    names = found.class_names or list(map(str, range(len(found.counts))))
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(["", *names])
    table.writerows([name, *row] for name, row in zip(names, found.counts, strict=True))
    return out.getvalue()


def confusion_from_csv(path: Path) -> Confusion:
    """The matrix of a file, with names or without; RunFolderError if it holds none."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file, strict=True))
        names = rows[0][1:] if rows and rows[0] and rows[0][0] == "" else []
        if names and [row[:1] for row in rows[1:]] != [[name] for name in names]:
            raise ValueError("its rows and columns have other names")
        cells = [row[1:] for row in rows[1:]] if names else rows
        counts = [[_count(text) for text in row or [""]] for row in cells]
    except (OSError, ValueError, csv.Error) as error:
        raise RunFolderError(f"{path}: cannot be read ({reason_of(error)}): damaged") from error
    if not counts or any(len(row) != len(counts) for row in counts):
        raise RunFolderError(
            f"{path}: has {len(counts)} rows: expected as many as columns, those of a run"
        )
    return Confusion(counts, names)


def draw_counts(found: Confusion, path: Path, title: str) -> None:
    """Draw a matrix as PNG: the share of each row in colours, numbers where there is room.

    Raises RunFolderError where the picture cannot be written.
    """
    from knltrain.picture import empty_figure, save

    counts, classes = found.counts, len(found.counts)
    shares = [[100 * each / max(sum(row), 1) for each in row] for row in counts]
    ticks = range(0, classes, -(-classes // _MOST_TICKS))
    names = [_shown(found.class_names[each] if found.class_names else str(each)) for each in ticks]
    are_short = max(map(len, names)) <= _LEVEL
    figure = empty_figure(8.0, 7.0, _MARGINS if are_short else None)
    axes = figure.subplots()
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=100)
    figure.colorbar(image, ax=axes, pad=0.03, label="share of the images of a class (%)")
    for row in range(classes if classes <= _MOST_WRITTEN else 0):
        for column in range(classes):
            colour = "white" if shares[row][column] > 50 else "black"
            text = f"{counts[row][column]:,}" if counts[row][column] else ""
            axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=8)
    axes.set_xticks(ticks, names, rotation=0 if are_short else 90, parse_math=False)
    axes.set_yticks(ticks, names, parse_math=False)
    axes.set_xlabel("class that was found")
    axes.set_ylabel("class of the image")
    figure.suptitle(title, parse_math=False)
    save(figure, path)


def _shown(name: str) -> str:
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise ValueError(f"{text[:20]!r} is no count")
    return int(text)
