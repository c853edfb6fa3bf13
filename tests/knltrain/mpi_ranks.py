"""Programs under mpiexec, for the tests: real ranks, which end the test's wait whatever happens."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
MPIEXEC = shutil.which(Path(sys.executable).with_name("mpiexec")) or shutil.which("mpiexec")
SECONDS = 120

needs_mpi = pytest.mark.skipif(
    MPIEXEC is None or importlib.util.find_spec("mpi4py") is None, reason="MPI is not installed"
)
OVER_TCP = {"I_MPI_FABRICS": "ofi", "FI_PROVIDER": "tcp", "FI_TCP_IFACE": "lo"}
"""What lets Intel MPI go over TCP between processes of one computer, too."""


def run_ranks(
    count: int, *arguments: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `python *arguments` as so many ranks; an exception in one of them ends all."""
    assert MPIEXEC is not None
    return subprocess.run(
        [MPIEXEC, "-n", str(count), sys.executable, "-m", "mpi4py", *arguments],
        env={
            **os.environ,
            "PYTHONPATH": str(REPOSITORY),
            "I_MPI_PIN": "0",
            "I_MPI_HYDRA_IFACE": "lo",
            **(environment or {}),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
    )


def expect_success(found: subprocess.CompletedProcess[str]) -> str:
    """Return what was printed; fail with it if a rank has failed."""
    assert found.returncode == 0, found.stdout
    return found.stdout
