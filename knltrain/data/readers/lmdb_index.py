"""What the records of one of Caffe's LMDBs say of their pictures, kept for the next start."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

import lmdb
import numpy as np
import numpy.typing as npt

from knltrain.data.readers.datum import Datum, DatumParser
from knltrain.data.readers.index import SETTLED_SECONDS, Arrays, load_index, save_index
from knltrain.data.readers.lmdb_files import data_file, environment, unreadable
from knltrain.data.readers.lmdb_pages import check_pages
from knltrain.errors import DataError

_BROKEN: Final = -1
"""The place of a picture whose bytes do not fit its shape."""


@final
@dataclass(frozen=True, slots=True)
class LmdbIndex:
    """Of N pictures their keys, one after another, and where each ends; labels, places and shapes.

    `places` int64 (N,2) are begin and number of a picture's bytes in its record; -1 begins those
    that do not fit the shape. `shapes` int32 (N,3) are (C,H,W), 0 of encoded pictures.
    `offsets` int64 (N,) say how far each record lies behind the first one in the file.
    """

    path: Path
    place: str
    keys: bytes
    ends: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    shapes: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ends)

    def data(self, row: int) -> memoryview | None:
        """The bytes of a picture in the mapped file; None of broken ones."""
        begin, size = self.places[row].tolist()
        record = None if begin == _BROKEN else environment(self.place).get(self._key(row))
        found = None if record is None else record[begin : begin + size]
        return None if found is None or len(found) != size else found

    def addresses(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Where the bytes of pictures `rows` (n,) lie in this process's memory; 0 of broken ones.

        The file stays as it is, and mapped in one piece until the process ends.
        """
        begins = self.places[rows, 0]
        found = self._record(0) + self.offsets[rows] + begins
        return np.where(begins == _BROKEN, 0, found)

    def is_of_this_file(self) -> bool:
        """Whether the last record lies where it is expected."""
        return bool(self._record(len(self) - 1) - self._record(0) == self.offsets[-1])

    def is_whole(self) -> npt.NDArray[np.bool_]:
        """Whether the bytes of each picture fit its shape, (N,)."""
        return np.asarray(self.places[:, 0] != _BROKEN)

    def name(self, row: int) -> str:
        """File and key of a picture."""
        return f"{self.path}, key {_shown(self._key(row))}"

    def _record(self, row: int) -> int:
        """Where a record lies in memory; -1 where there is none."""
        record = environment(self.place).get(self._key(row))
        return -1 if record is None else _address(record)

    def _key(self, row: int) -> bytes:
        return self.keys[int(self.ends[row - 1]) if row else 0 : int(self.ends[row])]


def open_index(path: Path) -> LmdbIndex:
    """The index of the LMDB at `path`, as found now or remembered of the same file.

    Finding it touches every record, but not all of its bytes. Raises DataError.
    """
    place, begin = str(path.resolve()), time.time()
    environment(place)  # which refuses a truncated file
    state = data_file(path).stat()
    key = f"lmdb 2 {place} {state.st_size} {state.st_mtime_ns} {state.st_ino}"
    arrays = load_index(key)
    if arrays is not None and (found := _index(path, place, arrays)).is_of_this_file():
        return found
    arrays = scanned(path, place)
    if begin - state.st_mtime > SETTLED_SECONDS:
        save_index(key, arrays)
    return _index(path, place, arrays)


def _index(path: Path, place: str, arrays: Arrays) -> LmdbIndex:
    numbers = (arrays[name] for name in ("ends", "labels", "places", "shapes", "offsets"))
    return LmdbIndex(path, place, arrays["keys"].tobytes(), *numbers)


def scanned(path: Path, place: str) -> Arrays:
    """The arrays of the index of an LMDB, from its records; DataError."""
    keys: list[bytes] = []
    parse, addresses = DatumParser(), []
    found: list[tuple[int, int, int, int, int, int]] = []
    try:
        check_pages(data_file(path))
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    try:
        for key, record in environment(place).transaction().cursor():
            keys.append(bytes(key))
            message = memoryview(record)
            found.append(_told(parse(message)))
            addresses.append(_address(message))
    except lmdb.Error as error:
        raise unreadable(path, error) from error
    except ValueError as error:
        raise DataError(
            f"{path}, key {_shown(keys[-1])}: no Datum of Caffe's ({error}): expected an LMDB as "
            "convert_imageset writes it"
        ) from error
    if not keys:
        raise DataError(f"{path}: this LMDB is empty: expected a Datum for each picture")
    table = np.array(found, np.int64)
    return {
        "keys": np.frombuffer(b"".join(keys), np.uint8),
        "ends": np.cumsum([len(key) for key in keys], dtype=np.int64),
        "labels": table[:, 0].copy(),
        "places": table[:, 1:3].copy(),
        "shapes": table[:, 3:].astype(np.int32),
        "offsets": np.array(addresses, np.int64) - addresses[0],
    }


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


def _address(record: memoryview) -> int:
    """Where a record lies in this process's memory; -1 of an empty one, which has no picture."""
    if not len(record):
        return -1
    found: int = np.frombuffer(record, np.uint8).__array_interface__["data"][0]
    return found


def _shown(key: bytes) -> str:
    return repr(key.decode("utf-8", "backslashreplace"))
