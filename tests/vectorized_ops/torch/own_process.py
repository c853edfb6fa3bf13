"""Programs that are run alone, for what a process keeps: its memory, its threads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import vectorized_ops

ROOT = Path(vectorized_ops.__file__).parents[1]


def words_of(program: str, *arguments: str) -> list[str]:
    """The words that a program prints; a warning is an error."""
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
        text=True,
    )
    return result.stdout.split()
