"""The end of the time limit of the Slurm job in which this process runs."""

from __future__ import annotations

import math
import os
import re
import subprocess
import threading
import time
from collections.abc import Mapping
from typing import Final, final

ASK_SECONDS: Final = 300.0
"""The longest time until squeue is asked again: an administrator may change a job's time limit."""

LEAST_ASK_SECONDS: Final = 30.0

_LEFT = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")
"""Slurm's [days-][hours:]minutes:seconds."""

_UNLIMITED = "UNLIMITED"
_PATIENCE_SECONDS = 20.0


@final
class JobEnd:
    """The end of the job's time limit, as Slurm last gave it.

    Slurm sets it at the start from version 23.02 on (SLURM_JOB_END_TIME); with an older version
    squeue is asked. Later a thread asks squeue again, more often as the end comes nearer. No caller
    waits for the answer.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = dict(os.environ if environment is None else environment)
        self._job = self._environment.get("SLURM_JOB_ID")
        self._end: float | None = None
        told = self._environment.get("SLURM_JOB_END_TIME", "")
        if told.isdigit():
            self._end = float(told)
        elif self._job:
            self._ask()
        self._ask_at = time.monotonic() + self._pause_seconds() if self._job else math.inf

    def __call__(self) -> float | None:
        """Return the end in seconds since 1970; None without a job, or without a known limit."""
        if time.monotonic() >= self._ask_at:
            self._ask_at = math.inf
            threading.Thread(target=self._ask_anew, name="end of the job", daemon=True).start()
        return self._end

    def _pause_seconds(self) -> float:
        """Return half of the time that is left, within limits."""
        if self._end is None:
            return ASK_SECONDS
        return min(max((self._end - time.time()) / 2, LEAST_ASK_SECONDS), ASK_SECONDS)

    def _ask_anew(self) -> None:
        self._ask()
        self._ask_at = time.monotonic() + self._pause_seconds()

    def _ask(self) -> None:
        """Store the answer of squeue, if it is a time, or that there is no limit."""
        now = time.time()
        told = _asked_squeue(str(self._job), self._environment)
        left = seconds_left(told)
        if left is not None:
            self._end = now + left
        elif told.strip() == _UNLIMITED:
            self._end = None


def seconds_left(text: str) -> float | None:
    """Return the time left in squeue's format, 1-02:03:04; None for UNLIMITED or other texts."""
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
