"""Caffe's LMDB: a Datum for each picture, as bytes or encoded as JPEG or PNG, by key."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final, final

import numpy as np
from xxhash import xxh3_128

from knltrain.data.contents import HalfContents, sampled
from knltrain.data.derived import Selection
from knltrain.data.encoded import (
    SKIPPING,
    EncodedPictures,
    EncodedSource,
    next_alike,
    not_skipped,
)
from knltrain.data.readers.files import DataFiles, HalfName
from knltrain.data.readers.labels import as_labels
from knltrain.data.readers.lmdb_index import LmdbIndex, open_index
from knltrain.data.readers.parts import joined
from knltrain.data.source import SKIPPED, ImageSource, LabelArray, Pixels, Rows
from knltrain.errors import BrokenPicture, DataError
from vectorized_ops.pictures import PicturesOf

NAMES: Final[dict[HalfName, tuple[str, ...]]] = {
    "train": ("*train*lmdb*", "train_db"),
    "test": ("*test*lmdb*", "*val*lmdb*", "val_db"),
}


def open_lmdb(files: DataFiles, half: HalfName) -> ImageSource | None:
    """The pictures of a half, mapped; None if there are no files. Raises DataError."""
    paths = files.of_half(half, NAMES)
    return joined([_opened(path, files) for path in paths]) if paths else None


@final
class RawPictures(ImageSource):
    """Pictures of an LMDB that are not encoded: views of the mapped file.

    They are those at `rows` (n,) of `index`, in that order. With `skip`, the next whole picture
    with the same label takes the place of one whose bytes do not fit its shape.
    """

    def __init__(
        self,
        index: LmdbIndex,
        rows: Rows,
        labels: LabelArray,
        contents: HalfContents,
        is_bgr: bool,
        skip: bool,
    ) -> None:
        is_whole = index.is_whole()[rows]
        whole = index.shapes[rows[is_whole]]
        same = bool(len(whole)) and bool((whole == whole[0]).all())
        channels = int(index.shapes[0, 0])
        shape = (int(whole[0, 1]), int(whole[0, 2]), channels) if same else None
        super().__init__(labels, (), channels, shape)
        self._index, self._contents = index, contents
        self._is_bgr, self._skip = is_bgr, skip
        self._rows = self._places = rows
        self._broken = np.flatnonzero(~is_whole)
        if skip and len(self._broken):
            self._places = rows.copy()
            for row in self._broken.tolist():
                alike = next_alike(labels, row)
                self._places[row] = rows[next(iter(alike[is_whole[alike]]), row)]

    def picture(self, row: int) -> Pixels:
        """A view (H,W,C) of planes (C,H,W); BrokenPicture where there are too few bytes."""
        self._pass_over(np.array([row]))
        place = int(self._places[row])
        data, shape = self._index.data(place), self._index.shapes[place].tolist()
        if data is None:
            error = self._error(row)
            if self._skip:
                raise not_skipped(error, len(next_alike(self.labels, row)))
            raise BrokenPicture(f"{error}{SKIPPING}")
        planes = np.frombuffer(data, np.uint8).reshape(shape)
        found: Pixels = (planes[::-1] if self._is_bgr else planes).transpose(1, 2, 0)
        return found

    def pictures_of(self, rows: Rows) -> Sequence[Pixels]:
        """Those of one size as one array over the map, in which one begins at each byte."""
        addresses = self._index.addresses(self._places[rows])
        if self.image_shape is None or not addresses.all() or not len(rows):
            return super().pictures_of(rows)
        self._pass_over(rows)
        height, width, channels = self.image_shape
        plane, low = height * width, int(addresses.min())
        first, step = ((channels - 1) * plane, -plane) if self._is_bgr else (0, plane)
        shape = (int(addresses.max()) - low + 1, *self.image_shape)
        memory = _Memory(low + first, shape, (1, width, 1, step))
        return PicturesOf(np.asarray(memory), addresses - low)

    def chosen(self, rows: Rows) -> RawPictures:
        """Pictures `rows` (n,) of this source, in that order: another such source."""
        found = RawPictures(
            self._index,
            self._rows[rows],
            self.labels[rows],
            Selection(self, rows).contents(),
            self._is_bgr,
            self._skip,
        )
        found.class_names, found.image_shape = self.class_names, self.image_shape
        return found

    @property
    def held_bytes(self) -> int:
        """None: all are mapped."""
        return 0

    def picture_name(self, row: int) -> str:
        """Its file and key."""
        return self._index.name(int(self._rows[row]))

    def contents(self) -> HalfContents:
        """As given."""
        return self._contents

    def _pass_over(self, rows: Rows) -> None:
        """Count those of pictures `rows` (n,) in whose place others are read."""
        if self._skip and len(self._broken):
            for row in rows[np.isin(rows, self._broken)].tolist():
                if self._places[row] != self._rows[row]:
                    SKIPPED.add({self.picture_name(row): str(self._error(row))})

    def _error(self, row: int) -> BrokenPicture:
        at = int(self._rows[row])
        shape = tuple(self._index.shapes[at].tolist())
        return BrokenPicture(
            f"{self.picture_name(row)}: has {int(self._index.places[at, 1]):,} bytes for "
            f"(C, H, W) = {shape}: expected {math.prod(shape):,}; remove it"
        )


@final
class _Memory:
    """Bytes at an address, as NumPy takes them: not to be written."""

    def __init__(self, address: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        data = {"data": (address, True), "shape": shape, "strides": strides}
        self.__array_interface__ = {**data, "typestr": "|u1", "version": 3}


@final
class EncodedRecords(EncodedPictures):
    """Pictures of an LMDB that are encoded as JPEG, PNG or else."""

    def __init__(self, index: LmdbIndex) -> None:
        self._index = index

    def data(self, row: int) -> memoryview:
        """A view of the mapped file."""
        return self._index.data(row) or memoryview(b"")

    def name(self, row: int) -> str:
        """Its file and key."""
        return self._index.name(row)


def _opened(path: Path, files: DataFiles) -> ImageSource:
    index = open_index(path)
    labels = as_labels(index.labels, str(path), files.first_label)
    channels = np.unique(index.shapes[:, 0]).tolist()
    if channels == [0]:
        contents, pictures = _contents(index, labels, files.channels), EncodedRecords(index)
        return EncodedSource(pictures, labels, (), files.channels, contents, files.decoding)
    if channels not in ([1], [3]):
        told = " and ".join(str(each or "encoded") for each in channels)
        raise DataError(
            f"{path}: pictures have {told} channels: expected 1 or 3, the same for all, or all of "
            "them encoded"
        )
    is_bgr = files.channel_order == "bgr" and channels == [3]
    contents = _contents(index, labels, channels[0], "bgr" if is_bgr else "")
    skip = files.decoding is not None and files.decoding.skip
    return RawPictures(index, np.arange(len(labels)), labels, contents, is_bgr, skip)


def _contents(index: LmdbIndex, labels: LabelArray, channels: int, order: str = "") -> HalfContents:
    """By all keys, labels and sizes, and the bytes of some pictures."""
    found = xxh3_128(index.keys)
    found.update(order.encode())
    for array in (index.ends, labels, index.places):
        found.update(np.ascontiguousarray(array).data)
    for row in sampled(len(labels)):
        found.update(index.data(row) or b"")
    _, height, width = index.shapes.max(axis=0).tolist()
    return HalfContents(len(labels), (height, width, channels), found.hexdigest())
