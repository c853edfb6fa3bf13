"""oneCCL's library: its place, the environment variables that it needs, and loading it."""

from __future__ import annotations

import atexit
import ctypes
import functools
import importlib.metadata
from pathlib import Path

from knltrain.cluster.variables import set_unless_set
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
"""Variables that the library must find when it is loaded. It then

- looks for no GPU,
- needs no launcher of MPI,
- works in the calling thread, not in threads that busy-wait and would need cores of their own,
- prints nothing about these settings.
"""

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
"""Libraries that it would look for in LD_LIBRARY_PATH, which must be set before a process starts.
They are loaded first instead: a loaded library is found without that path."""


def installed() -> tuple[str, Path] | None:
    """Return the version of the PyPI package and the folder of its libraries; None if missing."""
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
    """Make the process end without oneCCL's exit handlers, with its own exit status.

    Those handlers fail the process if rank 0 ended before, or if a call that never returns is under
    way. Python's exit handlers still run. C's handlers run last registered first, so this one is
    registered now, after all of oneCCL's.
    """
    if library.cache_info().currsize:
        libc = ctypes.CDLL(None)
        libc.fflush(None)
        libc.on_exit(libc._exit, None)
