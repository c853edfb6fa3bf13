"""Images and labels in NumPy's files: arrays of an .npz, or two .npy.

Shapes tell which array is which: images have three or four dimensions, labels one or two. Where
files hold several of a kind, names tell the halves: x_train, test_images.
"""

from __future__ import annotations

import re
import struct
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Literal

import numpy as np
import numpy.typing as npt

from knltrain.data.mapped import map_array
from knltrain.data.readers.arrays import array_source, check_room, wrong_type
from knltrain.data.readers.files import HALVES, DataFiles, HalfName
from knltrain.data.source import ImageSource
from knltrain.errors import DataError
from knltrain.files.durable import reason_of

_FILES: Final = ("*.npz", "*.npy")
NAMES: Final[dict[HalfName, tuple[str, ...]]] = {"train": _FILES, "test": _FILES}
_DAMAGE: Final = (
    *(OSError, EOFError, ValueError, KeyError, TypeError, OverflowError, NotImplementedError),
    *(RuntimeError, MemoryError, zipfile.BadZipFile, zlib.error, struct.error),
)
"""What zipfile and NumPy raise for files that are damaged, or encrypted."""
_WORDS: Final[dict[HalfName, re.Pattern[str]]] = {
    "train": re.compile("(?<![a-wz])train"),
    "test": re.compile("(?<![a-wz])(test|t10k)"),
}
_LOCAL_HEADER: Final = struct.Struct("<26x2H")
"""Of a member of a zip file; it ends with the lengths of its name and of what else it has."""


@dataclass(frozen=True, slots=True)
class StoredArray:
    """An array of a file that is not read yet; `member` is its name in an .npz.

    Its values begin at byte `begin` of the file; None if they are compressed.
    """

    path: Path
    member: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool
    begin: int | None

    def __str__(self) -> str:
        name = f"{self.path}: {self.member}" if self.member else str(self.path)
        return f"{name} {self.dtype} {self.shape}"

    def is_of(self, half: HalfName) -> bool:
        """Whether its name tells that half, as x_train and testX do, but latest does not."""
        return bool(_WORDS[half].search((self.member or self.path.name).lower()))

    def array(self) -> npt.NDArray[Any]:
        """Its values, mapped unless they are compressed."""
        order: Literal["C", "F"] = "F" if self.fortran else "C"
        if 0 in self.shape:
            return np.empty(self.shape, self.dtype)
        if self.begin is not None:
            return map_array(self.path, self.dtype, self.begin, self.shape, order)
        count = int(np.prod(self.shape, dtype=object))
        check_room(count * self.dtype.itemsize, self.path)
        with np.load(self.path, allow_pickle=False) as archive:
            return np.asarray(archive[self.member])


def open_numpy(files: DataFiles, half: HalfName) -> ImageSource | None:
    """The pictures of a half, mapped where they are not compressed; None if there are none.

    Raises DataError, with all arrays that were found, if it is not clear which to take.
    """
    paths = files.of_half(half, NAMES, shared=True)  # whose arrays have names
    found = [array for path in paths for array in stored_arrays(path)]
    named = bool(files.train if half == "train" else files.test)
    images = [array for array in found if len(array.shape) in (3, 4)]
    labels = [array for array in found if len(array.shape) in (1, 2)]
    if not named and half == "test" and not any(array.is_of(half) for array in images):
        return None
    images, labels = (_of_half(each, half) for each in (images, labels))
    if len(images) != 1 or len(labels) != 1:
        told = "; ".join(map(str, found)) or "no arrays"
        raise DataError(
            f"{files.root}: {told}: expected one array of {HALVES[half]} images (N, H, W, C) and "
            f"one of labels (N,); name their files by data.{half}, or the arrays {half}_images and "
            f"{half}_labels"
        )
    if images[0].dtype != np.uint8:  # before a large array is read
        raise DataError(f"{images[0]}: {wrong_type(images[0].dtype)}")
    try:
        pixels, values = images[0].array(), labels[0].array()
    except DataError:
        raise
    except _DAMAGE as error:
        raise _damaged(images[0].path, error) from error
    return array_source(
        pixels,
        values,
        str(images[0].path),
        channel_order=files.channel_order,
        first_label=files.first_label,
    )


def _of_half(arrays: list[StoredArray], half: HalfName) -> list[StoredArray]:
    """Those whose names tell the half, where there are several; else all."""
    return arrays if len(arrays) == 1 else [array for array in arrays if array.is_of(half)]


def stored_arrays(path: Path) -> list[StoredArray]:
    """The arrays of an .npz or .npy, without their values; DataError for damaged files."""
    try:
        with path.open("rb") as file:
            if path.suffix == ".npz":
                return list(_members(path, file))
            shape, fortran, dtype = _header(file)
            found = StoredArray(path, "", shape, dtype, fortran, file.tell())
            needed = file.tell() + int(np.prod(shape, dtype=object)) * dtype.itemsize
        if path.stat().st_size < needed:
            raise ValueError(f"{needed - path.stat().st_size:,} bytes are missing")
        return [found]
    except _DAMAGE as error:
        raise _damaged(path, error) from error


def _members(path: Path, file: IO[bytes]) -> Iterable[StoredArray]:
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            if not info.filename.endswith(".npy"):
                continue
            with archive.open(info) as member:
                shape, fortran, dtype = _header(member)
                header = member.tell()
            begin = None
            if info.compress_type == zipfile.ZIP_STORED:
                file.seek(info.header_offset)
                lengths = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
                begin = info.header_offset + _LOCAL_HEADER.size + sum(lengths) + header
            yield StoredArray(path, info.filename[:-4], shape, dtype, fortran, begin)


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    read = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    shape, fortran, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are not read; expected numbers")
    return shape, fortran, dtype


def _damaged(path: Path, error: Exception) -> DataError:
    return DataError(f"{path}: no whole file of NumPy's ({reason_of(error)}): write it again")
