"""Caffe's LMDB: a Datum for each picture, as bytes or encoded as JPEG or PNG, by key."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple, final

import lmdb
import numpy as np
import numpy.typing as npt
from xxhash import xxh3_128

from knltrain.data.contents import HalfContents, sampled
from knltrain.data.decoding import decode
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
    """Of each picture its key, label, the place of its bytes in its record, their number, its shape.

    `places` int64 (N,) are -1 of broken ones; `shapes` int32 (N,3) are (C,H,W), 0 of encoded ones.
    """

    keys: list[bytes]
    labels: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    shapes: npt.NDArray[np.int32]


@final
class LmdbSource(ImageSource):
    """Pictures of an LMDB; those that are not encoded are views of the mapped file."""

    def __init__(self, path: Path, index: _Index, labels: LabelArray, channels: int, bgr: bool) -> None:
        whole = index.shapes[index.places >= 0]
        is_raw = bool(len(whole)) and bool((whole == whole[0]).all()) and whole[0, 0] > 0
        shape = tuple(map(int, whole[0])) if is_raw else None
        super().__init__(labels, (), channels, (shape[1], shape[2], shape[0]) if shape else None)
        self._path = path
        self._index = index
        self._bgr = bgr and channels == 3

    def picture(self, row: int) -> Pixels:
        """A view (H,W,C) of planes (C,H,W), or decoded."""
        record = environment(self._path).get(self._index.keys[row])
        place, size = int(self._index.places[row]), int(self._index.sizes[row])
        if record is None or place == _BROKEN or place + size > len(record):
            raise BrokenPicture(
                f"{self.picture_name(row)}: its {size:,} bytes do not fit its shape (C, H, W) = "
                f"{tuple(self._index.shapes[row].tolist())}"
            )
        data, shape = record[place : place + size], self._index.shapes[row]
        if not shape[0]:
            return decode(data, self.channels, self.picture_name(row))
        planes = np.frombuffer(data, np.uint8).reshape(shape)
        return planes[::-1].transpose(1, 2, 0) if self._bgr else planes.transpose(1, 2, 0)

    @property
    def held_bytes(self) -> int:
        """None: all are mapped."""
        return 0

    def picture_name(self, row: int) -> str:
        """Its file and key."""
        return f"{self._path}, key {self._index.keys[row].decode('utf-8', 'backslashreplace')!r}"

    def contents(self) -> HalfContents:
        """By all keys, labels and sizes, and the bytes of some pictures."""
        found = xxh3_128(b"\0".join(self._index.keys))
        found.update(np.ascontiguousarray(self.labels).data)
        found.update(self._index.sizes.data)
        for row in sampled(len(self)):
            found.update(environment(self._path).get(self._index.keys[row]) or b"")
        shape = self.image_shape or (0, 0, self.channels)
        return HalfContents(len(self), shape, found.hexdigest())


def _opened(path: Path, files: DataFiles) -> LmdbSource:
    index = _scanned(path)
    channels = set(index.shapes[:, 0].tolist()) - {0}
    if len(channels) > 1 or not channels <= {1, 3}:
        raise DataError(
            f"{path}: pictures have {' and '.join(map(str, sorted(channels)))} channels: expected "
            "1 or 3, the same for all"
        )
    labels = as_labels(index.labels, str(path), files.first_label)
    is_bgr = files.channel_order == "bgr"
    return LmdbSource(path, index, labels, channels.pop() if channels else files.channels, is_bgr)


def _scanned(path: Path) -> _Index:
    """Reads what each record says of its picture, but not the pictures."""
    keys: list[bytes] = []
    found: list[tuple[int, int, int, int, int, int]] = []
    try:
        for key, record in environment(path).transaction().cursor():
            keys.append(bytes(key))
            found.append(_told(parse_datum(record)))
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
