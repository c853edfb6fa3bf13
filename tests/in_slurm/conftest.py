"""A real Slurm for tests: its daemons run in a folder and a process namespace of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

DAEMONS = Path(__file__).with_name("daemons.py")
PROGRAMS = ("munged", "mungekey", "slurmctld", "slurmd", "srun", "sbatch", "setpriv", "unshare")
DIE_WITH_US = ("setpriv", "--pdeathsig", "KILL")
"""Else srun goes on for a minute to look for a controller that has ended with the tests."""

SECONDS = 60


class SlurmCluster:
    """Runs Slurm's commands against the cluster of these tests.

    `folder` holds its configuration and logs; `confined` says whether partition "confined" works,
    whose jobs are in cpusets of their own.
    """

    def __init__(self, folder: Path, confined: bool) -> None:
        self.folder, self.confined = folder, confined
        # These tests may be in a job themselves, of which theirs should know nothing.
        foreign = ("SLURM", "SRUN_", "SBATCH_", "SALLOC_")
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(foreign)},
            "SLURM_CONF": str(folder / "slurm.conf"),
        }

    def __call__(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command, as in ``slurm_cluster("srun", "-n2", "hostname")``, to its end."""
        return subprocess.run(
            (*DIE_WITH_US, *words),
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )

    def start(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        """Start a command, with its output and errors at our end of pipes."""
        return subprocess.Popen(
            (*DIE_WITH_US, *words),
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def batch(self, script: str, *options: str) -> str:
        """Submit the lines of a shell script, wait for its end, and return what it wrote."""
        out = self.folder / "batch.out"
        out.unlink(missing_ok=True)
        file = self.folder / "batch.sh"
        file.write_text(f"#!/bin/sh\n{script}\n")
        job = self("sbatch", "--parsable", f"--output={out}", *options, str(file)).stdout.strip()
        deadline = time.monotonic() + SECONDS
        # sbatch --wait looks only every two seconds, and then more and more rarely.
        while (state := self.state_of(job)) in ("PENDING", "RUNNING", "COMPLETING"):
            assert time.monotonic() < deadline, f"job {job} is still {state}"
            time.sleep(0.05)
        told = out.read_text()
        assert state == "COMPLETED", (state, told)
        return told

    def state_of(self, job: str) -> str:
        """In Slurm's words: PENDING, RUNNING, COMPLETED, FAILED and so on."""
        words = ("--noheader", "--states=all", "--format=%T", f"--jobs={job}")
        return self("squeue", *words).stdout.strip()

    def log_of(self, job: str) -> str:
        """What the controller noted about a job."""
        lines = (self.folder / "slurmctld.log").read_text().splitlines()
        return "\n".join(line for line in lines if f"JobId={job}" in line)


@pytest.fixture(scope="session")
def slurm_cluster() -> Iterator[SlurmCluster]:
    """Slurm's daemons, started once for all tests and ended with them, however these end."""
    if missing := [program for program in PROGRAMS if _found(program) is None]:
        pytest.skip(f"{', '.join(missing)} missing: scripts/system-packages installs Slurm")
    if os.geteuid() != 0:
        pytest.skip("Slurm's daemons need root")
    daemons = subprocess.Popen(
        [
            *("unshare", "--pid", "--fork", "--kill-child", "--mount-proc"),
            *(sys.executable, str(DAEMONS)),
        ],
        env={**os.environ, "PATH": _path()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # An interrupt at the terminal is for the tests.
    )
    assert daemons.stdout
    if not (line := daemons.stdout.readline()):
        _, error = daemons.communicate()
        if error.startswith("unshare:"):
            pytest.skip(f"Slurm's daemons need a process namespace: {error.strip()}")
        pytest.fail(error)
    told = json.loads(line)
    yield SlurmCluster(Path(told["folder"]), told["confined"])
    _, error = daemons.communicate(timeout=SECONDS)
    assert (daemons.returncode, error) == (0, "")
    assert not Path(told["folder"]).exists()


def _path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def _found(program: str) -> str | None:
    return shutil.which(program, path=_path())
