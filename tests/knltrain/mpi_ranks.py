"""Programs under mpiexec, for the tests: real ranks, which end the test's wait whatever happens."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from knltrain.bench.nodes.hosts import Hosts
from knltrain.communication.mpi.library import mpi_library
from knltrain.errors import ConfigError

REPOSITORY = Path(__file__).parents[2]
MPIEXEC = shutil.which(Path(sys.executable).with_name("mpiexec")) or shutil.which("mpiexec")
SECONDS = 120

needs_mpi = pytest.mark.skipif(
    MPIEXEC is None or importlib.util.find_spec("mpi4py") is None, reason="MPI is not installed"
)
OVER_TCP = {"I_MPI_FABRICS": "ofi", "FI_PROVIDER": "tcp", "FI_TCP_IFACE": "lo"}
"""What lets Intel MPI go over TCP between processes of one computer, too."""


def library_or_skip() -> None:
    """Skip the test unless a process can load an MPI library by itself, as a run does."""
    try:
        version = mpi_library().version
    except ConfigError as error:
        pytest.skip(str(error))
    if "Open MPI" in version:
        pytest.skip(f"{version} needs its own launcher")


_OWN_SHARED_MEMORY = "mount -t tmpfs none /dev/shm &&"
"""Hosts share none: each rank mounts one of its own, where nobody else sees it."""


def run_ranks(
    count: int, *arguments: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `python *arguments` as so many ranks; an exception in one of them ends all."""
    assert MPIEXEC is not None
    command = [MPIEXEC, "-n", str(count), sys.executable, "-m", "mpi4py", *arguments]
    return _run(command, {"I_MPI_HYDRA_IFACE": "lo", **(environment or {})})


def run_ranks_on(
    hosts: Hosts, folder: Path, count: int, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run `python *arguments` as so many ranks on hosts in turn, which are reached by a script."""
    assert MPIEXEC is not None
    ways = [[*hosts.way(number), "unshare", "--mount"] for number in range(len(hosts.names))]
    cases = [
        f'{address}) exec {shlex.join(way)} sh -c "{_OWN_SHARED_MEMORY} $*";;'
        for address, way in zip(hosts.addresses, ways, strict=True)
    ]
    script = folder / "come"
    lines = ["#!/bin/sh", 'while [ "${1#-}" != "$1" ]; do shift; done', "to=$1; shift"]
    script.write_text("\n".join([*lines, "case $to in", *cases, "esac", ""]))
    script.chmod(0o755)
    command = [*ways[0], "sh", "-c", f'{_OWN_SHARED_MEMORY} "$@"', "sh"]
    command += [
        MPIEXEC,
        "-iface",
        "eth0",
        "-hosts",
        ",".join(hosts.addresses),
        "-ppn",
        "1",
        "-n",
        str(count),
    ]
    return _run(
        [*command, sys.executable, "-m", "mpi4py", *arguments],
        {
            "I_MPI_HYDRA_BOOTSTRAP": "ssh",
            "I_MPI_HYDRA_BOOTSTRAP_EXEC": str(script),
            "FI_PROVIDER": "tcp",
            "FI_TCP_IFACE": "eth0",
        },
    )


def _run(
    command: Sequence[str], environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "I_MPI_PIN": "0", **environment},
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
