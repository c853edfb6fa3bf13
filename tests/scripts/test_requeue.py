"""When a job goes back to the queue; srun, squeue and scontrol are scripts of these tests."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts/requeue.sbatch"
ENDS = 'echo "srun $*"; exit "$STATUS"'
SLOW = 'trap "" TERM; echo here; read -r _ < go; exit "$STATUS"'


def _started(
    folder: Path, status: int, srun: str = ENDS, squeue: str = "echo RUNNING"
) -> subprocess.Popen[str]:
    scripts = {"srun": srun, "squeue": squeue, "scontrol": 'echo "scontrol $*"'}
    for name, script in scripts.items():
        program = folder / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o700)
    job = {"SLURM_JOB_NAME": "knl", "SLURM_JOB_ID": "12", "SLURM_CPUS_ON_NODE": "4"}
    return subprocess.Popen(
        ["bash", SCRIPT, "run.toml"],
        cwd=folder,
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "STATUS": str(status), **job},
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("status", [0, 1, 2, 143])
def test_job_ends_with_the_status_of_its_run(tmp_path: Path, status: int) -> None:
    process = _started(tmp_path, status)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == status
    assert "scontrol" not in out
    assert "train run.toml --name knl-12 --set runs_folder=runs" in out


def test_run_that_can_be_resumed_goes_back_to_the_queue(tmp_path: Path) -> None:
    process = _started(tmp_path, 75)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert out.splitlines()[-1] == "scontrol requeue 12"


@pytest.mark.parametrize("squeue", ["echo COMPLETING", "echo CANCELLED", "exit 1"])
def test_job_that_is_cancelled_does_not_go_back_to_the_queue(tmp_path: Path, squeue: str) -> None:
    """Though its run, which is told to end, keeps a checkpoint."""
    os.mkfifo(tmp_path / "go")
    process = _started(tmp_path, 75, SLOW, squeue)
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"
    process.send_signal(signal.SIGTERM)
    (tmp_path / "go").write_text("go\n")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 75
    assert "scontrol" not in out


def test_run_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "runs/knl-12/checkpoint-40").mkdir(parents=True)
    out, _ = _started(tmp_path, 0).communicate(timeout=60)
    assert "train --resume runs/knl-12\n" in out


@pytest.mark.parametrize(("status", "end"), [(75, 0), (143, 143)])
def test_signal_to_the_script_waits_for_the_run(tmp_path: Path, status: int, end: int) -> None:
    os.mkfifo(tmp_path / "go")
    process = _started(tmp_path, status, SLOW)
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"
    for _ in range(2):
        process.send_signal(signal.SIGTERM)
    (tmp_path / "go").write_text("go\n")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == end
    assert ("scontrol requeue 12" in out) is (status == 75)
