"""Packed data sets, as `knltrain pack` writes them: raw pictures are mapped, encoded ones read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import final

import numpy as np
import numpy.typing as npt

from knltrain.data.dataset import Halves, check_labels
from knltrain.data.encoded import DecodingRules, EncodedPictures, EncodedSource
from knltrain.data.mapped import map_array
from knltrain.data.packed_check import offsets_of
from knltrain.data.packed_format import PackedHalf, PackedHeader
from knltrain.data.packed_reading import read_header, read_section
from knltrain.data.readers.files import HALVES, HalfName
from knltrain.data.readers.halves import first_of
from knltrain.data.readers.open_files import OpenFiles
from knltrain.data.source import ArraySource, ImageSource, LabelArray, Rows
from knltrain.errors import DataError
from knltrain.files.read_ahead import read_ahead


@final
class PackedPictures(EncodedPictures):
    """The records of one half; `offsets` (images + 1,) are where they begin in the file."""

    def __init__(self, path: Path, offsets: npt.NDArray[np.int64], half: str) -> None:
        self._file = OpenFiles([path], [path.stat().st_size])
        self._path, self._offsets, self._half = path, offsets, half

    def data(self, row: int) -> bytes:
        """The bytes as they were packed."""
        begin, end = self._offsets[row : row + 2].tolist()
        return self._file.read(0, begin, end - begin)

    def read_ahead(self, rows: Rows) -> None:
        """All from the first to the last."""
        begin, end = self._offsets[rows[0]], self._offsets[rows[-1] + 1]
        read_ahead(self._path, int(begin), int(end - begin))

    def name(self, row: int) -> str:
        """Its number."""
        return _name(self._path, self._half) + f", image {row}"


def load_packed(
    path: Path,
    channels: int = 3,
    rules: DecodingRules | None = None,
    train_images: int | None = None,
    test_images: int | None = None,
) -> Halves:
    """Both halves of a packed file; `train_images` and `test_images` keep the first of each.

    Encoded pictures are grey where they were packed so, or for `channels` 1; `rules` are theirs.
    Raises DataError for a file that is truncated, damaged, of a newer version, or none of these,
    and for `channels` 1 where pictures are raw colours.
    """
    header, rules = read_header(path), rules or DecodingRules()
    if header.train.image_shape is not None and channels < header.channels:
        raise DataError(
            f"data.channels = {channels}: the pictures of {path} are raw, of {header.channels} "
            "channels: leave it out, or pack them with it"
        )
    rules = replace(rules, exif=rules.exif or header.exif)
    given = path, header, min(channels, header.channels), rules
    train = first_of("packed", "train", _source(*given, "train"), train_images)
    test = first_of("packed", "test", _source(*given, "test"), test_images)
    return Halves("packed", train, test, f"{header.description}, packed in {path}")


def _source(
    path: Path, header: PackedHeader, channels: int, rules: DecodingRules, half: HalfName
) -> ImageSource:
    packed = header.train if half == "train" else header.test
    labels = _labels(path, packed, len(header.class_names))
    names, origin = header.class_names, _name(path, HALVES[half])
    if packed.image_shape is None:
        offsets = offsets_of(path, packed) + packed.pictures.begin
        pictures = PackedPictures(path, offsets, HALVES[half])
        contents = replace(packed.contents, image_shape=(0, 0, channels))
        return EncodedSource(pictures, labels, names, channels, contents, rules)
    shape = (packed.images, *packed.image_shape)
    pixels = map_array(path, np.uint8, packed.pictures.begin, shape)
    return ArraySource(pixels, labels, names, packed.contents, origin)


def _labels(path: Path, half: PackedHalf, classes: int) -> LabelArray:
    data = read_section(path, half.labels)
    if half.targets:
        targets = np.frombuffer(data, "<f4").astype(np.float32)
        return targets.reshape(half.images, half.targets)
    labels = np.frombuffer(data, "<i8").astype(np.int64)
    check_labels(labels, classes, str(path))
    return labels


def _name(path: Path, half: str) -> str:
    return f"{path}, {half} half"
