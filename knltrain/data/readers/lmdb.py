"""Caffe's LMDB: a Datum for each picture, as bytes or encoded as JPEG or PNG, by key."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final, final

import numpy as np
from xxhash import xxh3_128

from knltrain.data.contents import HalfContents, sampled
from knltrain.data.encoded import EncodedPictures, EncodedSource
from knltrain.data.readers.files import DataFiles, HalfName
from knltrain.data.readers.labels import as_labels
from knltrain.data.readers.lmdb_index import LmdbIndex, open_index
from knltrain.data.readers.parts import joined
from knltrain.data.source import ImageSource, LabelArray, Pixels, Rows
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
    """Pictures of an LMDB that are not encoded: views of the mapped file."""

    def __init__(
        self, index: LmdbIndex, labels: LabelArray, contents: HalfContents, is_bgr: bool
    ) -> None:
        whole = index.shapes[index.is_whole()]
        same = bool(len(whole)) and bool((whole == whole[0]).all())
        channels = int(index.shapes[0, 0])
        shape = (int(whole[0, 1]), int(whole[0, 2]), channels) if same else None
        super().__init__(labels, (), channels, shape)
        self._index, self._contents, self._is_bgr = index, contents, is_bgr

    def picture(self, row: int) -> Pixels:
        """A view (H,W,C) of planes (C,H,W); BrokenPicture where there are too few bytes."""
        data, shape = self._index.data(row), self._index.shapes[row].tolist()
        if data is None:
            raise BrokenPicture(
                f"{self.picture_name(row)}: has {int(self._index.places[row, 1]):,} bytes for "
                f"(C, H, W) = {tuple(shape)}: expected {math.prod(shape):,}; remove it"
            )
        planes = np.frombuffer(data, np.uint8).reshape(shape)
        found: Pixels = (planes[::-1] if self._is_bgr else planes).transpose(1, 2, 0)
        return found

    def pictures_of(self, rows: Rows) -> Sequence[Pixels]:
        """Those of one size as one array over the map, in which one begins at each byte."""
        addresses = self._index.addresses(rows)
        if self.image_shape is None or not addresses.all() or not len(rows):
            return super().pictures_of(rows)
        height, width, channels = self.image_shape
        plane, low = height * width, int(addresses.min())
        first, step = ((channels - 1) * plane, -plane) if self._is_bgr else (0, plane)
        shape = (int(addresses.max()) - low + 1, *self.image_shape)
        memory = _Memory(low + first, shape, (1, width, 1, step))
        return PicturesOf(np.asarray(memory), addresses - low)

    @property
    def held_bytes(self) -> int:
        """None: all are mapped."""
        return 0

    def picture_name(self, row: int) -> str:
        """Its file and key."""
        return self._index.name(row)

    def contents(self) -> HalfContents:
        """As given."""
        return self._contents


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
    return RawPictures(index, labels, contents, is_bgr)


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
