"""Programs under a real mpiexec, for tests of what is built on MPI."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from ...mpi_ranks import MPIEXEC, OVER_TCP, needs_mpi

REPOSITORY = Path(__file__).parents[4]
LIMIT_SECONDS = 120

__all__ = ["OVER_TCP", "Ended", "mpi_run", "needs_mpi"]


@dataclass
class Ended:
    status: int
    lines: list[str]
    errors: str


def mpi_run(
    ranks: int, module: str, *arguments: str, environment: dict[str, str] | None = None
) -> Ended:
    """Run `python -m mpi4py -m module arguments` by so many ranks; a failure of one ends all."""
    # Ranks share the cores with all that runs beside the tests: nobody is to be bound to one.
    environment = {"PYTHONPATH": str(REPOSITORY), "I_MPI_PIN": "0", **(environment or {})}
    started = subprocess.Popen(
        [str(MPIEXEC), "-n", str(ranks), sys.executable, "-m", "mpi4py", "-m", module, *arguments],
        env={**os.environ, **environment},
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, errors = started.communicate(timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)
        started.communicate()
        raise
    return Ended(started.returncode, out.splitlines(), errors)
