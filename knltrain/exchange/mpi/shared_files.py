"""Files that an MPI library makes in shared memory, and takes away once all ranks have opened them.

Where a rank dies before that, the others do it in its place.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

_FOLDER = "/dev/shm/"
_NAMES = ("Intel_MPI_", "mpich_shar_tmp")


def remove_shared_files() -> list[str]:
    """Take away the names of an MPI library's files that this process has mapped; return them."""
    removed = []
    for line in Path("/proc/self/maps").read_text(errors="replace").splitlines():
        path = line.split(maxsplit=5)[5:]
        if path and path[0].startswith(tuple(_FOLDER + name for name in _NAMES)):
            with suppress(OSError):  # it has no name any more
                Path(path[0]).unlink()
                removed.append(path[0])
    return removed
