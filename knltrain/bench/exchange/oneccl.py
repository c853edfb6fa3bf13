"""oneCCL's all-reduce of float32 vectors in host memory, by its C interface, without a C compiler.

The interface is that of NCCL (onecclGetUniqueId, onecclCommInitRank, onecclAllReduce). The library
never reports that a peer is gone: whoever starts the processes must look after them.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
from pathlib import Path
from typing import final

import numpy as np
import numpy.typing as npt

PACKAGE = "oneccl"
LIBRARY = "libccl.so.2"
ID_BYTES = 4096

ENVIRONMENT = {
    "CCL_PLUGIN": "ONECCL_LEGACY_CPU",
    "CCL_ATL_TRANSPORT": "ofi",
    "CCL_WORKER_OFFLOAD": "0",
}
"""What the library must find when it is loaded: no GPU is looked for; no launcher of MPI is needed;
and each call works itself, where threads that spin for it would need cores of their own."""

_FLOAT32 = 7
_SUM = 0


class _UniqueId(ctypes.Structure):
    """Passed by value."""

    _fields_ = [("bytes", ctypes.c_char * ID_BYTES)]


def unique_id() -> bytes:
    """Return an id by which the ranks of one communicator find each other; for one of them to call.

    Raises OSError and RuntimeError as `Communicator` does.
    """
    made = _UniqueId()
    _call("onecclGetUniqueId", ctypes.byref(made))
    return ctypes.string_at(ctypes.byref(made), ID_BYTES)


@final
class Communicator:
    """Rank ``rank`` of ``workers`` processes that reduce together; all begin with the same id.

    Raises OSError if the library cannot be loaded and RuntimeError, with the function's name and
    its code, if oneCCL refuses.
    """

    def __init__(self, rank: int, workers: int, common_id: bytes) -> None:
        self._communicator = ctypes.c_void_p()
        _call(
            "onecclCommInitRank",
            ctypes.byref(self._communicator),
            ctypes.c_int(workers),
            _UniqueId.from_buffer_copy(common_id),
            ctypes.c_int(rank),
        )

    def all_reduce(self, vector: npt.NDArray[np.float32]) -> None:
        """Replace ``vector`` (n,), contiguous, by the sum over all processes (collective)."""
        address = ctypes.c_void_p(vector.ctypes.data)
        _call(
            "onecclAllReduce",
            address,
            address,
            ctypes.c_size_t(vector.size),
            ctypes.c_int(_FLOAT32),
            ctypes.c_int(_SUM),
            self._communicator,
            None,
        )


def _call(function: str, *arguments: object) -> None:
    code = getattr(_library(), function)(*arguments)
    if code != 0:
        raise RuntimeError(f"{function} failed with code {code}")


@functools.cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(LIBRARY)


def installed() -> tuple[str, Path] | None:
    """Version of the package from PyPI and the folder of its libraries; None where it is not."""
    try:
        found = importlib.metadata.distribution(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in found.files or ():
        if file.name == LIBRARY:
            return found.version, Path(str(file.locate())).resolve().parent
    return None
