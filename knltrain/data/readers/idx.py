"""Images and labels in idx files: MNIST, Fashion-MNIST, EMNIST, KMNIST and the like."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from knltrain.data.idx import map_idx, read_shape
from knltrain.data.readers.arrays import array_source
from knltrain.data.readers.files import HALVES, DataFiles, HalfName
from knltrain.data.source import ImageSource
from knltrain.errors import DataError
from knltrain.files.durable import reason_of

NAMES: Final[dict[HalfName, tuple[str, ...]]] = {
    "train": ("*train*idx*",),
    "test": ("*t10k*idx*", "*test*idx*"),
}
_EMNIST: Final = re.compile(r"-(train|test)-images.*")
"""What follows the name of one of its sets in the names of files."""


def open_idx(files: DataFiles, half: HalfName) -> ImageSource | None:
    """The pictures of a half, mapped where the file is not compressed; None if there are no files.

    Of its two files the one with one dimension holds the labels. Raises DataError.
    """
    paths = files.of_half(half, NAMES)
    if not paths:
        return None
    shapes = {path: read_shape(path) for path in paths}
    labels = [path for path, shape in shapes.items() if len(shape) == 1]
    images = [path for path, shape in shapes.items() if len(shape) > 1]
    if len(labels) != 1 or len(images) != 1:
        raise DataError(_not_a_pair(files, half, labels, images))
    pixels, given = map_idx(images[0]), files.class_names()
    if files.transposed and pixels.ndim > 2:
        pixels = pixels.swapaxes(1, 2)
    found = array_source(
        pixels,
        map_idx(labels[0]),
        str(images[0]),
        first_label=files.first_label,
        class_names=() if given else _names_of_emnist(images[0], files.first_label),
    )
    if half == "train" and not files.transposed and images[0].name.startswith("emnist"):
        found.notes = (
            f"{images[0]}: images of EMNIST lie column by column: to turn them upright set "
            "data.transposed = true",
        )
    return found


def _names_of_emnist(images: Path, first_label: int) -> tuple[str, ...]:
    """The characters of each class, by the mapping file beside EMNIST's images; () without it."""
    path = images.with_name(f"{_EMNIST.sub('', images.name)}-mapping.txt")
    if not _EMNIST.search(images.name) or not path.exists():
        return ()
    try:
        lines = path.read_text(encoding="ascii").split("\n")
        rows = [[int(word) for word in line.split()] for line in lines if line.strip()]
        names = tuple("".join(map(chr, codes)) for _, *codes in rows)
    except (OSError, ValueError, OverflowError) as error:
        raise DataError(
            f"{path}: cannot be read ({reason_of(error)}): expected lines of a label and the codes "
            "of its characters, as '1 65 97'; or name the classes by data.class_names"
        ) from error
    labels = [label for label, *_ in rows]
    if not labels or labels != list(range(first_label, first_label + len(rows))) or not all(names):
        told = f"{', '.join(map(str, labels[:3]))} and so on" if labels else "no classes"
        first = f"data.first_label = {labels[0]}, or " if labels else ""
        raise DataError(
            f"{path}: names {told}, and labels count from {first_label}: expected each "
            f"class in turn, with its characters; set {first}data.class_names"
        )
    return names


def _not_a_pair(files: DataFiles, half: HalfName, labels: list[Path], images: list[Path]) -> str:
    told = [
        f"{len(found)} of {what} ({', '.join(path.name for path in found) or 'none'})"
        for what, found in (("images", images), ("labels", labels))
    ]
    return (
        f"{files.root}: {' and '.join(told)} for {HALVES[half]} images: expected one file of each; "
        f"choose them by a pattern, as data.{half} = 'emnist-letters-{half}-*'"
    )
