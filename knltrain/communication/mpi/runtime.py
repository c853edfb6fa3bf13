"""mpi4py, loaded on demand, with threads; the error says how to install what is missing."""

from __future__ import annotations

from typing import Any

from knltrain.errors import ConfigError

INSTALL = "pip install 'knltrain[mpi]', and impi-rt where the machine has no MPI of its own"


def load_mpi(initialize: bool = True) -> Any:
    """Return the module `mpi4py.MPI`, initialised so that several threads may call it.

    Without ``initialize`` MPI has been initialised by `join_mpi`, which also finalises it.

    Raises ConfigError if mpi4py or the MPI library below it is missing or broken, or if that
    library allows only one thread to call it.
    """
    try:
        import mpi4py

        mpi4py.rc(initialize=initialize, threads=True, thread_level="multiple", finalize=initialize)
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise ConfigError(f"MPI cannot be used here: {error}; {INSTALL}") from error
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        version = MPI.Get_library_version().strip().splitlines()[0]
        raise ConfigError(
            f"the MPI library ({version}) lets one thread call it: expected MPI_THREAD_MULTIPLE; "
            f"{INSTALL}"
        )
    return MPI
