"""Images and labels in idx files: MNIST, Fashion-MNIST, EMNIST, KMNIST and the like."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from knltrain.data.idx import map_idx, read_shape
from knltrain.data.readers.arrays import array_source
from knltrain.data.readers.files import HALVES, DataFiles, HalfName
from knltrain.data.source import ImageSource
from knltrain.errors import DataError

NAMES: Final[dict[HalfName, tuple[str, ...]]] = {
    "train": ("*train*idx*",),
    "test": ("*t10k*idx*", "*test*idx*"),
}


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
    return array_source(
        map_idx(images[0]),
        map_idx(labels[0]),
        str(images[0]),
        first_label=files.first_label,
    )


def _not_a_pair(files: DataFiles, half: HalfName, labels: list[Path], images: list[Path]) -> str:
    told = [
        f"{len(found)} of {what} ({', '.join(path.name for path in found) or 'none'})"
        for what, found in (("images", images), ("labels", labels))
    ]
    return (
        f"{files.root}: {' and '.join(told)} for {HALVES[half]} images: expected one file of each; "
        f"choose them by a pattern, as data.{half} = 'emnist-letters-{half}-*'"
    )
