"""Programs under a real mpiexec, for tests of what is built on MPI."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[4]
MPIEXEC = shutil.which(Path(sys.executable).with_name("mpiexec")) or shutil.which("mpiexec")
LIMIT_SECONDS = 120

needs_mpi = pytest.mark.skipif(
    MPIEXEC is None or importlib.util.find_spec("mpi4py") is None, reason="MPI is not installed"
)

# Whatever the library would take where there are several computers, on this one.
OVER_TCP = {"I_MPI_FABRICS": "ofi", "FI_PROVIDER": "tcp"}


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
