"""oneCCL's library: where it is, what it must find in the environment, how it is loaded."""

from __future__ import annotations

import atexit
import ctypes
import functools
import importlib.metadata
from pathlib import Path

from knltrain.cluster import set_unless_set
from knltrain.errors import CollectiveError

PACKAGE = "oneccl"
LIBRARY = "libccl.so.2"

MISSING = "oneCCL is not installed: pip install 'knltrain[oneccl]' (1.9 GB)"

ENVIRONMENT = {
    "CCL_PLUGIN": "ONECCL_LEGACY_CPU",
    "CCL_ATL_TRANSPORT": "ofi",
    "CCL_WORKER_OFFLOAD": "0",
    "CCL_LOG_LEVEL": "error",
}
"""What the library must find when it is loaded: no GPU is looked for; no launcher of MPI is needed;
each call works itself, where threads that spin for it would need cores of their own; and nothing is
printed of these being as they are."""

_NEEDED_FIRST = (
    "libintlc.so.5",
    "libirng.so",
    "libimf.so",
    "libsvml.so",
    "libumf.so.1",
    "libur_loader.so.0",
    "libsycl.so.9",
    LIBRARY,
    "libccl.so.1",
    "libccl_legacy_cpu.so",
    "libfabric.so.1",
    "libmpi.so.12",
)
"""What it would look for in LD_LIBRARY_PATH, which must be set before a process starts. A library
that is loaded already is found without."""


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


@functools.cache
def library() -> ctypes.CDLL:
    """Load oneCCL; variables of ENVIRONMENT that are set stay as they are.

    Raises CollectiveError, with the way out, if it is not installed or cannot be loaded.
    """
    found = installed()
    if found is None:
        raise CollectiveError(MISSING)
    folder = found[1]
    set_unless_set({**ENVIRONMENT, "FI_PROVIDER_PATH": str(folder)})
    try:
        loaded = {
            name: ctypes.CDLL(str(folder / name), ctypes.RTLD_GLOBAL)
            for name in _NEEDED_FIRST
            if (folder / name).exists()
        }
    except OSError as error:
        raise CollectiveError(
            f"oneCCL {found[0]} in {folder} cannot be loaded: {error}; expected the package as it "
            "comes: pip install --force-reinstall 'knltrain[oneccl]'"
        ) from error
    return loaded[LIBRARY]


@atexit.register
def _end_without_clearing_up() -> None:
    """Have the process end without oneCCL's own clearing up, with the status that it wants.

    That fails the process if rank 0 ended before, or if a call that never returns is under way.
    What Python does at exit is done. Of what is to be done after it, the last registered comes
    first: hence this now, when all of oneCCL's is.
    """
    if library.cache_info().currsize:
        libc = ctypes.CDLL(None)
        libc.fflush(None)
        libc.on_exit(libc._exit, None)
