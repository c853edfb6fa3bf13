"""A signal to what a launch runs on a host: `python -m knltrain.launch.pass_on JOB NUMBER` there.

ssh passes no signals on: it ends, and what it runs on the host with it.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from knltrain.cluster.task import OWN
from knltrain.cluster.worker import PREFIX


def tasks_of(job: str) -> list[int]:
    """Processes that a launch has started here, but not their workers."""
    task, worker = f"{OWN}_JOB={job}".encode(), f"{PREFIX}RANK=".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            values = (entry / "environ").read_bytes().split(b"\0")
            if task in values and not any(value.startswith(worker) for value in values):
                found.append(int(entry.name))
    return found


def main(job: str, number: int) -> None:
    """Send the signal."""
    for process in tasks_of(job):
        with suppress(ProcessLookupError):
            os.kill(process, signal.Signals(number))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
