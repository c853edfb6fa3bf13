"""HDF5 files as Caffe's HDF5Data layer reads them: `data` (N,C,H,W), `label` (N,) or (N,1).

They are named by themselves, or by text files with a name a line.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from knltrain.data.mapped import map_array
from knltrain.data.readers.arrays import are_whole, array_source, check_room, in_bytes, wrong_type
from knltrain.data.readers.files import DataFiles, HalfName
from knltrain.data.readers.optional import optional
from knltrain.data.readers.parts import joined
from knltrain.data.source import ImageSource
from knltrain.errors import DataError
from knltrain.files.durable import reason_of

NAMES: Final[dict[HalfName, tuple[str, ...]]] = {
    "train": ("*train*.h5", "*train*.hdf5", "*train*.txt"),
    "test": ("*test*.h5", "*test*.hdf5", "*test*.txt"),
}
LABEL: Final = "label"

_AT_A_TIME: Final = 2**24
"""Values that are converted at a time."""


def open_hdf5(files: DataFiles, half: HalfName) -> ImageSource | None:
    """The pictures of a half; None if there are no files.

    Bytes that are neither compressed nor in chunks are mapped. Floats that are whole numbers of 0
    to 255, or 255ths, become bytes in memory. Raises DataError.
    """
    paths = files.of_half(half, NAMES)
    if any(path.suffix == ".txt" for path in paths):
        paths = [each for path in paths if path.suffix == ".txt" for each in _listed(path)]
    return joined([_opened(path, files) for path in paths]) if paths else None


def _listed(path: Path) -> Iterator[Path]:
    """The files that a text file names, by their path or from its folder."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({reason_of(error)})") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        beside, as_it_is = path.parent / line.strip(), Path(line.strip())
        if not beside.is_file() and not as_it_is.is_file():
            raise DataError(
                f"{path}, line {number}: '{line.strip()}' is no file: expected an HDF5 file by its "
                "path in full, or below the folder of the list"
            )
        yield beside if beside.is_file() else as_it_is


def _opened(path: Path, files: DataFiles) -> ImageSource:
    h5py = optional("h5py", "hdf5", "HDF5")
    try:
        with h5py.File(path, "r") as file:
            _check_inside(path, h5py, file)
            kept = {name: value for name, value in file.items() if isinstance(value, h5py.Dataset)}
            told = ", ".join(f"{name} {value.shape} {value.dtype}" for name, value in kept.items())
            label = files.label or LABEL
            if "data" not in kept or label not in kept:
                raise DataError(
                    f"{path}: holds {told or 'no arrays'}: expected data (N, C, H, W) and {label}; "
                    "data.label names other labels"
                )
            images, labels = _pixels(path, kept["data"]), np.asarray(kept[label][()])
    except DataError:
        raise
    except (OSError, RuntimeError, KeyError, ValueError) as error:
        raise DataError(
            f"{path}: no whole HDF5 file ({reason_of(error)}): write it again"
        ) from error
    return array_source(
        images,
        labels,
        str(path),
        layout="nchw",
        channel_order=files.channel_order,
        first_label=files.first_label,
    )


def _check_inside(path: Path, h5py: Any, file: Any) -> None:
    """Refuse arrays whose values lie in other files, which may be anywhere: DataError."""
    for name in file:
        is_elsewhere = isinstance(file.get(name, getlink=True), h5py.ExternalLink)
        if not is_elsewhere and isinstance(found := file.get(name), h5py.Dataset):
            is_elsewhere = bool(found.external) or found.is_virtual
        if is_elsewhere:
            raise DataError(
                f"{path}: the values of '{name}' lie in another file: expected arrays in the file "
                "itself; copy it with h5repack, or name the other file"
            )


def _pixels(path: Path, data: Any) -> npt.NDArray[Any]:
    """Bytes (N,C,H,W), mapped where that can be."""
    if data.dtype == np.uint8 and (begin := data.id.get_offset()) is not None and data.size:
        return map_array(path, np.uint8, begin, data.shape)
    if data.dtype == np.uint8:
        check_room(data.size, path)
        return np.asarray(data[:])
    if data.dtype.kind != "f":
        raise DataError(f"{path}: data: {wrong_type(data.dtype)}")
    check_room(data.size, path)
    few = max(1, _AT_A_TIME // max(1, data[:1].size))
    parts = [slice(begin, begin + few) for begin in range(0, len(data), few)]
    factor = 1 if all(are_whole(data[part]) for part in parts) else 255
    pixels = np.empty(data.shape, np.uint8)
    for part in parts:
        pixels[part] = in_bytes(data[part], factor, f"{path}: data")
    return pixels
