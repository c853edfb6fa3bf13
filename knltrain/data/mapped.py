"""Mapped files: where an array lies in one, and what became of them if reading one kills.

A process that reads beyond the end of a mapped file, or from a disk that fails, dies by SIGBUS.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from knltrain.errors import DataError
from knltrain.files.durable import reason_of

Place: TypeAlias = tuple[str, int, int, int, str, tuple[int, ...], tuple[int, ...]]
"""File, begin and bytes of what is mapped; begin, type, shape and strides of an array in it."""

_SIZES: Final[dict[str, int]] = {}
"""Of the files that this process has mapped, when it did so."""
_MOST_TOLD: Final = 3
_WAY: Final = "put the data back, and resume; no program may write them during a run"


def map_array(
    path: Path, dtype: Any, begin: int, shape: Sequence[int], order: Literal["C", "F"] = "C"
) -> npt.NDArray[Any]:
    """An array of `shape` in a file from byte `begin` on, not to be written."""
    note_mapped(path)
    found: npt.NDArray[Any] = np.memmap(path, dtype, "r", begin, tuple(shape), order)
    return found


def note_mapped(path: Path) -> None:
    """Remember the size of a file that is mapped, for `bus_error_hint`."""
    _SIZES[str(path.resolve())] = path.stat().st_size


def bus_error_hint() -> str:
    """Why a process may have died by SIGBUS that maps the files that this one has mapped."""
    changed = []
    for path, size in _SIZES.items():
        try:
            now = Path(path).stat().st_size
        except OSError as error:
            changed.append(f"{path} cannot be read any more, {reason_of(error)}")
            continue
        if now < size:
            changed.append(f"{path} has {now:,} bytes, and had {size:,} when it was mapped")
    if changed:
        more = len(changed) - _MOST_TOLD
        told = changed[:_MOST_TOLD] + [f"{more:,} more files"] * (more > 0)
        return f"{'; '.join(told)}: {_WAY}"
    known = next(iter(_SIZES), None)
    others = f" and {len(_SIZES) - 1:,} more files" if len(_SIZES) > 1 else ""
    disk = f", or the disk of {known}{others} fails" if known else ""
    return f"perhaps /dev/shm is full{disk}"


def mapped_base(array: npt.NDArray[Any]) -> np.memmap[Any, Any] | None:
    """What is mapped of a file, in which an array lies; None of one that lies in none."""
    found, base = None, cast("object", array)
    while isinstance(base, np.ndarray):
        found = base if isinstance(base, np.memmap) else found
        base = base.base
    return found


def place_of(array: npt.NDArray[Any]) -> Place | None:
    """Where an array lies in a mapped file, for `array_at` in another process; None in none."""
    mapped = mapped_base(array)
    if mapped is None:
        return None
    begin = array.__array_interface__["data"][0] - mapped.__array_interface__["data"][0]
    file = str(mapped.filename), int(mapped.offset), mapped.nbytes
    return *file, begin, array.dtype.str, array.shape, array.strides


def array_at(
    path: str,
    file_begin: int,
    size: int,
    begin: int,
    dtype: str,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
) -> npt.NDArray[Any]:
    """The array at a `Place`, mapped anew; DataError where the file cannot be, or is shorter."""
    try:
        mapped = map_array(Path(path), np.uint8, file_begin, (size,))
    except (OSError, ValueError) as error:
        why = reason_of(error)
        raise DataError(f"{path}: cannot be mapped any more ({why}): {_WAY}") from error
    found: npt.NDArray[Any] = np.ndarray(shape, dtype, mapped, begin, strides)
    return found


@contextmanager
def bus_errors_told() -> Iterator[None]:
    """Meanwhile a process that dies by SIGBUS says why on its standard error."""
    libc = ctypes.CDLL(None)
    libc.signal.argtypes, libc.signal.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p

    def tell(number: int) -> None:
        libc.signal(number, None)  # what was read is read again, which ends the process
        told = f"knltrain: error: killed by SIGBUS ({bus_error_hint()})\n"
        os.write(2, told.encode(errors="backslashreplace"))

    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(tell)
    before = libc.signal(signal.SIGBUS, ctypes.cast(handler, ctypes.c_void_p))
    try:
        yield
    finally:
        libc.signal(signal.SIGBUS, before)
