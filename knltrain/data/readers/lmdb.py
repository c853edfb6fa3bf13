"""Caffe's LMDB: a Datum for each picture, as bytes or encoded as JPEG or PNG, by key."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Final, NamedTuple, final

import lmdb
import numpy as np
import numpy.typing as npt
from xxhash import xxh3_128

from knltrain.data.contents import HalfContents, sampled
from knltrain.data.encoded import EncodedPictures, EncodedSource
from knltrain.data.readers.datum import Datum, parse_datum
from knltrain.data.readers.files import DataFiles, HalfName
from knltrain.data.readers.labels import as_labels
from knltrain.data.readers.lmdb_files import environment, unreadable
from knltrain.data.readers.parts import joined
from knltrain.data.source import ImageSource, LabelArray, Pixels
from knltrain.errors import BrokenPicture, DataError

NAMES: Final[dict[HalfName, tuple[str, ...]]] = {
    "train": ("*train*lmdb*", "train_db"),
    "test": ("*test*lmdb*", "*val*lmdb*", "val_db"),
}

_BROKEN: Final = -1
"""The place of a picture whose bytes do not fit its shape."""


def open_lmdb(files: DataFiles, half: HalfName) -> ImageSource | None:
    """The pictures of a half, mapped; None if there are no files. Raises DataError."""
    paths = files.of_half(half, NAMES[half])
    return joined([_opened(path, files) for path in paths]) if paths else None


class _Index(NamedTuple):
    """Of each picture key, label, place and number of its bytes in its record, and shape.

    `places` int64 (N,) are -1 of broken ones; `shapes` int32 (N,3) are (C,H,W), 0 of encoded ones.
    """

    keys: list[bytes]
    labels: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    shapes: npt.NDArray[np.int32]


@final
class RawPictures(ImageSource):
    """Pictures of an LMDB that are not encoded: views of the mapped file."""

    def __init__(
        self, path: Path, index: _Index, labels: LabelArray, contents: HalfContents, is_bgr: bool
    ) -> None:
        whole = index.shapes[index.places != _BROKEN]
        same = bool(len(whole)) and bool((whole == whole[0]).all())
        channels = int(index.shapes[0, 0])
        shape = (int(whole[0, 1]), int(whole[0, 2]), channels) if same else None
        super().__init__(labels, (), channels, shape)
        self._path, self._place = path, str(path.resolve())
        self._index, self._contents = index, contents
        self._is_bgr = is_bgr

    def picture(self, row: int) -> Pixels:
        """A view (H,W,C) of planes (C,H,W); BrokenPicture where there are too few bytes."""
        data, shape = _bytes(self._place, self._index, row), self._index.shapes[row].tolist()
        if data is None:
            raise BrokenPicture(
                f"{self.picture_name(row)}: has {int(self._index.sizes[row]):,} bytes for (C, H, W)"
                f" = {tuple(shape)}: expected {math.prod(shape):,}; remove it"
            )
        planes = np.frombuffer(data, np.uint8).reshape(shape)
        found: Pixels = (planes[::-1] if self._is_bgr else planes).transpose(1, 2, 0)
        return found

    @property
    def held_bytes(self) -> int:
        """None: all are mapped."""
        return 0

    def picture_name(self, row: int) -> str:
        """Its file and key."""
        return _name(self._path, self._index.keys[row])

    def contents(self) -> HalfContents:
        """As given."""
        return self._contents


@final
class EncodedRecords(EncodedPictures):
    """Pictures of an LMDB that are encoded as JPEG, PNG or else."""

    def __init__(self, path: Path, index: _Index) -> None:
        self._path, self._place, self._index = path, str(path.resolve()), index

    def data(self, row: int) -> memoryview:
        """A view of the mapped file."""
        found = _bytes(self._place, self._index, row)
        return memoryview(b"") if found is None else found

    def name(self, row: int) -> str:
        """Its file and key."""
        return _name(self._path, self._index.keys[row])


def _bytes(place: str, index: _Index, row: int) -> memoryview | None:
    """A picture in the mapped file; None of broken ones."""
    begin = int(index.places[row])
    record = None if begin == _BROKEN else environment(place).get(index.keys[row])
    return None if record is None else record[begin : begin + int(index.sizes[row])]


def _name(path: Path, key: bytes) -> str:
    return f"{path}, key {key.decode('utf-8', 'backslashreplace')!r}"


def _opened(path: Path, files: DataFiles) -> ImageSource:
    index = _scanned(path)
    labels = as_labels(index.labels, str(path), files.first_label)
    channels = np.unique(index.shapes[:, 0]).tolist()
    if channels == [0]:
        contents = _contents(path, index, labels, files.channels)
        pictures = EncodedRecords(path, index)
        return EncodedSource(pictures, labels, (), files.channels, contents, files.decoding)
    if channels not in ([1], [3]):
        told = " and ".join(str(each or "encoded") for each in channels)
        raise DataError(
            f"{path}: pictures have {told} channels: expected 1 or 3, the same for all, or all of "
            "them encoded"
        )
    is_bgr = files.channel_order == "bgr" and channels == [3]
    contents = _contents(path, index, labels, channels[0], "bgr" if is_bgr else "")
    return RawPictures(path, index, labels, contents, is_bgr)


def _contents(
    path: Path, index: _Index, labels: LabelArray, channels: int, order: str = ""
) -> HalfContents:
    """By all keys, labels and sizes, and the bytes of some pictures."""
    found = xxh3_128(b"\0".join(index.keys))
    found.update(order.encode())
    found.update(np.ascontiguousarray(labels).data)
    found.update(index.sizes.data)
    place = str(path.resolve())
    for row in sampled(len(labels)):
        found.update(_bytes(place, index, row) or b"")
    _, height, width = index.shapes.max(axis=0).tolist()
    return HalfContents(len(labels), (height, width, channels), found.hexdigest())


def _scanned(path: Path) -> _Index:
    """Reads what each record says of its picture, but not the pictures."""
    keys: list[bytes] = []
    found: list[tuple[int, int, int, int, int, int]] = []
    try:
        for key, record in environment(str(path.resolve())).transaction().cursor():
            keys.append(bytes(key))
            found.append(_told(parse_datum(memoryview(record))))
    except lmdb.Error as error:
        raise unreadable(path, error) from error
    except ValueError as error:
        name = keys[-1].decode("utf-8", "backslashreplace")
        raise DataError(
            f"{path}, key {name!r}: no Datum of Caffe's ({error}): expected an LMDB as "
            "convert_imageset writes it"
        ) from error
    if not keys:
        raise DataError(f"{path}: this LMDB is empty: expected a Datum for each picture")
    table = np.array(found, np.int64)
    labels, places, sizes = (np.ascontiguousarray(column) for column in table[:, :3].T)
    return _Index(keys, labels, places, sizes, table[:, 3:].astype(np.int32))


def _told(datum: Datum) -> tuple[int, int, int, int, int, int]:
    """Label, place and size of its bytes, (C,H,W)."""
    if datum.has_floats and not datum.size:
        raise ValueError("it holds floats, features rather than a picture")
    if datum.encoded:
        return datum.label, datum.begin, datum.size, 0, 0, 0
    if max(datum.channels, datum.height, datum.width) >= 2**31:
        raise ValueError("its shape is that of no picture")
    place = datum.begin if datum.is_whole() else _BROKEN
    return datum.label, place, datum.size, datum.channels, datum.height, datum.width
