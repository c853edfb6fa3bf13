"""The MPI library that mpi4py is bound to: found by mpi4py, initialised without the GIL.

mpi4py holds the GIL while it initialises MPI, so no thread of the process could answer the library
meanwhile. A call of the same library by ctypes releases it.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import warnings
from dataclasses import dataclass

from knltrain.cluster.variables import set_unless_set
from knltrain.communication.mpi.runtime import INSTALL
from knltrain.communication.rendezvous.network_interface import interface_of
from knltrain.errors import ConfigError

THREAD_MULTIPLE = 3
"""MPI_THREAD_MULTIPLE in the ABI of the MPICH family, and in that of Open MPI."""

_LONGEST_VERSION_BYTES = 8192

SETTINGS = {
    "I_MPI_PIN": "0",
    "I_MPI_THREAD_YIELD": "3",
    "I_MPI_THREAD_SLEEP": "100",
}
"""Settings of Intel MPI: it must not pin workers to other cores, and long waits must sleep (100
microseconds between two polls) instead of keeping a core busy."""


@dataclass(frozen=True, slots=True)
class MpiLibrary:
    """A loaded MPI library, and the first line of its version."""

    functions: ctypes.CDLL
    version: str

    @property
    def speaks_pmi(self) -> bool:
        """Whether it is of the MPICH family, which our process manager can serve."""
        return any(name in self.version for name in ("MPICH", "Intel(R) MPI", "MVAPICH"))

    def initialised(self) -> bool:
        """Whether MPI has been initialised in this process (it may be finalised already)."""
        flag = ctypes.c_int()
        self.functions.MPI_Initialized(ctypes.byref(flag))
        return bool(flag.value)

    def initialise(self) -> int:
        """Initialise MPI for several threads; return its error code, 0 for success."""
        provided = ctypes.c_int()
        return int(
            self.functions.MPI_Init_thread(None, None, THREAD_MULTIPLE, ctypes.byref(provided))
        )

    def finalise(self) -> int:
        """Finalise MPI, together with all other ranks; return its error code, 0 for success."""
        return int(self.functions.MPI_Finalize())


@functools.cache
def mpi_library() -> MpiLibrary:
    """Load the library that mpi4py uses, without initialising MPI.

    Raises ConfigError, with the way out, if mpi4py or the library is missing or broken.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # mpi4py warns if it does not know the library's ABI
            found = importlib.util.find_spec("mpi4py.MPI")
        if found is None or found.origin is None:
            raise ImportError("mpi4py has no module MPI")
        functions = ctypes.CDLL(found.origin)
        text, length = ctypes.create_string_buffer(_LONGEST_VERSION_BYTES), ctypes.c_int()
        functions.MPI_Get_library_version(text, ctypes.byref(length))
    except (ImportError, RuntimeError, RuntimeWarning, OSError, AttributeError) as error:
        reason = "; ".join(str(error).split("\n"))
        raise ConfigError(f"MPI cannot be used here: {reason}; {INSTALL}") from error
    return MpiLibrary(functions, text.value.decode(errors="replace").splitlines()[0].strip())


def prepare(own_address: str | None) -> None:
    """Set the environment variables of the MPI library, except those that the user has set.

    ``own_address`` is the address of this computer from which the others can be reached.
    """
    interface = None if own_address is None else interface_of(own_address)
    set_unless_set({**SETTINGS, **({} if interface is None else {"FI_TCP_IFACE": interface})})
