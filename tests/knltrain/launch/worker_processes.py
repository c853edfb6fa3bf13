"""Processes of a run's workers, for the tests that stop or kill them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from subprocess import Popen

from affinity.process.other_process import children


def workers_of(run: Popen[str]) -> dict[int, int]:
    """Process id of each worker of a run by its rank."""
    found = {}
    for child in children(run.pid):
        with suppress(FileNotFoundError, ProcessLookupError):  # no worker: it has ended since
            environment = Path(f"/proc/{child}/environ").read_text(encoding="utf-8").split("\0")
            values = dict(entry.split("=", 1) for entry in environment if "=" in entry)
            if rank := values.get("KNLTRAIN_RANK"):
                found[int(rank)] = child
    return found
