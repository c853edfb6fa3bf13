"""Environment variables for an MPI library, set by a launcher of MPI or by this process itself.

Libraries of the MPICH family find their process manager by PMI_FD, an open socket, and their rank
and the number of ranks by PMI_RANK and PMI_SIZE (PMI 1.1; Balaji et al., PMI: A Scalable Parallel
Process-Management Interface for Extreme-Scale Systems, EuroMPI 2010).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from knltrain.cluster.variables import plain_number

_OF_LAUNCHERS = ("PMI", "MPI_LOCAL", "I_MPI_HYDRA", "I_MPI_INFO", "I_MPI_PIN_INFO", "I_MPI_PIN_MAP")
"""Prefixes of the variables of launchers for an MPI library. The user may set I_MPI_PMI_LIBRARY,
but that library would look for a launcher."""


@dataclass(frozen=True, slots=True)
class MpiJob:
    """A job of ``ranks`` processes that ``launcher`` has started, of which this is ``rank``."""

    launcher: str
    rank: int
    ranks: int


def launched_mpi_job(environment: Mapping[str, str] | None = None) -> MpiJob | None:
    """Return the job that an MPI library of this process would join; None if there is none.

    There is none if no launcher of MPI has started this process, or if it is a child of a process
    that one has started, without the connection to the process manager.
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
    """Set the variables by which an MPI library finds its process manager at ``fd``.

    Variables of launchers are removed from the environment during the block.
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
