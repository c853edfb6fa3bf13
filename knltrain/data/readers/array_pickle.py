"""Reads pickles that hold dictionaries of arrays, lists, numbers and texts, and nothing else.

Unpickling calls whatever functions a file names. Here none is called: NumPy's names stand for plain
records of what the file says, of which arrays are made afterwards.
"""

from __future__ import annotations

import pickle
import struct
from pathlib import Path
from typing import IO, Any, Final, final

import numpy as np
import numpy.typing as npt

from knltrain.errors import DataError
from knltrain.files.durable import reason_of

_DAMAGE: Final = (
    *(pickle.UnpicklingError, EOFError, AttributeError, ImportError, IndexError, KeyError),
    *(MemoryError, NotImplementedError, OverflowError, RecursionError, TypeError, ValueError),
    struct.error,
)
"""What unpickling raises for files that are damaged."""


@final
class _Type:
    """A type of values as a pickle names it: "u1", "i8", ..."""

    def __init__(self, name: Any = "", *_others: Any) -> None:
        self.name = name.decode("latin-1") if isinstance(name, bytes) else str(name)

    def __setstate__(self, state: Any) -> None:
        big_endian = isinstance(state, tuple) and len(state) > 1 and state[1] in (">", b">")
        self.name = (">" if big_endian else "<") + self.name.lstrip("<>=|")


@final
class _Array:
    """An array as a pickle describes it."""

    shape: Any = None
    kind: Any = None
    data: Any = None
    fortran: Any = False

    def __setstate__(self, state: Any) -> None:
        _version, self.shape, self.kind, self.fortran, self.data = state

    def array(self) -> npt.NDArray[Any]:
        """The array; ValueError if what describes it does not fit together."""
        data = self.data.encode("latin-1") if isinstance(self.data, str) else self.data
        if not isinstance(self.kind, _Type) or not isinstance(data, bytes | bytearray):
            raise ValueError("an array of objects, not of numbers")
        dtype = np.dtype(self.kind.name)
        if dtype.kind not in "buif":
            raise ValueError(f"an array of {dtype}, not of numbers")
        flat = np.frombuffer(data, dtype)
        found: npt.NDArray[Any] = flat.reshape(self.shape, order="F" if self.fortran else "C")
        return found


def _from_buffer(data: Any, kind: Any, shape: Any, order: Any) -> _Array:
    found = _Array()
    found.__setstate__((1, shape, kind, order in ("F", b"F"), bytes(data)))
    return found


def _encoded(text: Any, _encoding: Any = None) -> bytes:
    """Bytes as Python 3 writes them for Python 2."""
    return str(text).encode("latin-1")


_STAND_INS: Final[dict[tuple[str, str], Any]] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
    ("_codecs", "encode"): _encoded,
    **{
        (f"numpy.{core}.multiarray", "_reconstruct"): lambda *_: _Array()
        for core in ("core", "_core")
    },
    **{(f"numpy.{core}.numeric", "_frombuffer"): _from_buffer for core in ("core", "_core")},
}


@final
class _ArrayUnpickler(pickle.Unpickler):
    """Knows the names that arrays consist of, and refuses all others."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _STAND_INS:
            raise pickle.UnpicklingError(
                f"it names {module}.{name}, which is neither an array nor a list; it is not run"
            )
        return _STAND_INS[module, name]


def read_array_pickle(path: Path) -> dict[str, Any]:
    """The dictionary in a pickle, by text: arrays of numbers, lists, numbers, texts.

    Raises DataError, with the file, for one that is damaged, holds anything else, or names a
    function.
    """
    try:
        with path.open("rb") as file:
            return _plain(_unpickled(file))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({reason_of(error)})") from error
    except _DAMAGE as error:
        raise DataError(
            f"{path}: no pickle of a dictionary of arrays ({error or type(error).__name__}): fetch "
            "it again"
        ) from error


def _unpickled(file: IO[bytes]) -> dict[Any, Any]:
    found = _ArrayUnpickler(file, encoding="latin-1").load()
    if not isinstance(found, dict):
        raise ValueError(f"it holds a {type(found).__name__}")
    return found


def _plain(found: dict[Any, Any]) -> dict[str, Any]:
    return {
        key.decode("latin-1") if isinstance(key, bytes) else str(key): (
            value.array() if isinstance(value, _Array) else value
        )
        for key, value in found.items()
    }
