"""What a launcher of MPI, or this process itself, tells an MPI library in the environment.

Libraries of the MPICH family find their process manager by PMI_FD, an open socket, and learn from
PMI_RANK and PMI_SIZE which rank of how many they are (PMI 1.1; Balaji et al., PMI: A Scalable
Parallel Process-Management Interface for Extreme-Scale Systems, EuroMPI 2010).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from knltrain.cluster.plain_number import plain_number

_OF_LAUNCHERS = ("PMI", "MPI_LOCAL", "I_MPI_HYDRA", "I_MPI_INFO", "I_MPI_PIN_INFO", "I_MPI_PIN_MAP")
"""How the variables begin by which launchers speak to an MPI library; I_MPI_PMI_LIBRARY is the
user's, but names one that would look for a launcher."""


@dataclass(frozen=True, slots=True)
class MpiJob:
    """A job of ``ranks`` processes that ``launcher`` has started, of which this is ``rank``."""

    launcher: str
    rank: int
    ranks: int


def launched_mpi_job(environment: Mapping[str, str] | None = None) -> MpiJob | None:
    """Return the job in which an MPI library of this very process would find itself.

    None where there is none: where no launcher of MPI has started it, or it is the child of a
    process that one has started, and has not inherited the connection to it.
    """
    values = os.environ if environment is None else environment
    for launcher, rank, ranks in (
        ("mpirun of Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("mpiexec or srun, by PMI", "PMI_RANK", "PMI_SIZE"),
    ):
        own, all_ = (plain_number(values.get(name)) for name in (rank, ranks))
        if own is not None and all_ is not None:
            if rank == "PMI_RANK" and not _reaches_its_manager(values):
                return None
            return MpiJob(launcher, own, all_)
    return None


@contextmanager
def telling_mpi(rank: int, ranks: int, fd: int) -> Iterator[None]:
    """Have an MPI library that is initialised meanwhile find its process manager behind ``fd``.

    Variables of launchers are out of the environment for as long.
    """
    of_launchers = [name for name in os.environ if name.startswith((*_OF_LAUNCHERS, "I_MPI_PMI"))]
    before = {name: os.environ.pop(name) for name in of_launchers}
    own = {"PMI_FD": str(fd), "PMI_RANK": str(rank), "PMI_SIZE": str(ranks)}
    os.environ.update(own)
    try:
        yield
    finally:
        for name in own:
            os.environ.pop(name, None)
        os.environ.update(before)


def _reaches_its_manager(values: Mapping[str, str]) -> bool:
    if values.get("PMI_PORT"):
        return True
    fd = plain_number(values.get("PMI_FD"))
    try:
        return fd is not None and stat.S_ISSOCK(os.fstat(fd).st_mode)
    except OSError:
        return False
