"""When the job of Slurm ends in which this process runs."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Mapping

_LEFT = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")
"""Slurm's [days-][hours:]minutes:seconds."""

_PATIENCE_SECONDS = 20.0


def job_end(environment: Mapping[str, str] | None = None) -> float | None:
    """Seconds since 1970 at which the job's time is up; None in no job, or in one without a limit.

    Slurm tells it from version 23.02 on (SLURM_JOB_END_TIME); of an older one squeue is asked.
    """
    values = os.environ if environment is None else environment
    told = values.get("SLURM_JOB_END_TIME", "")
    if told.isdigit():
        return float(told)
    job = values.get("SLURM_JOB_ID")
    if not job:
        return None
    now = time.time()
    left = seconds_left(_asked_squeue(job, values))
    return None if left is None else now + left


def seconds_left(text: str) -> float | None:
    """The time left as squeue writes it, such as 1-02:03:04; None for UNLIMITED and other words."""
    found = _LEFT.fullmatch(text.strip())
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _asked_squeue(job: str, environment: Mapping[str, str]) -> str:
    command = ("squeue", "--noheader", f"--jobs={job}", "--format=%L")
    try:
        done = subprocess.run(
            command,
            env=dict(environment),
            capture_output=True,
            text=True,
            timeout=_PATIENCE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout
