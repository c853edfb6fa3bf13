"""The MPI launcher that starts contestants."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

from knltrain.bench.step.peer_process import PeerError
from knltrain.communication.mpi.runtime import INSTALL


def mpiexec() -> str:
    """Return the `mpiexec` beside this Python, or else that of the system.

    Raises PeerError, with the remedy, where there is none, or no mpi4py.
    """
    beside = str(Path(sys.executable).with_name("mpiexec"))
    found = shutil.which(beside) or shutil.which("mpiexec")
    if found is None or importlib.util.find_spec("mpi4py") is None:
        raise PeerError(f"there is no {'mpi4py' if found else 'mpiexec'}: {INSTALL}")
    return found
