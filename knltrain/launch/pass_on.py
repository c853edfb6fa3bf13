"""Sends a signal to a launch on a host: `python -m knltrain.launch.pass_on JOB NUMBER` there.

ssh forwards no signals: it ends, and its command on the host with it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from knltrain.cluster.task import OWN
from knltrain.cluster.worker import PREFIX

PATIENCE_SECONDS: Final = 20.0
_LOOK_SECONDS: Final = 0.1


def tasks_of(job: str) -> list[int]:
    """The processes that a launch has started here, without their workers."""
    task, worker = f"{OWN}_JOB={job}".encode(), f"{PREFIX}RANK=".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            values = (entry / "environ").read_bytes().split(b"\0")
            if task in values and not any(value.startswith(worker) for value in values):
                found.append(int(entry.name))
    return found


def main(job: str, number: int) -> None:
    """Send the signal, also to a task that has not started yet."""
    until_seconds = time.monotonic() + PATIENCE_SECONDS
    while not (found := tasks_of(job)) and time.monotonic() < until_seconds:
        time.sleep(_LOOK_SECONDS)
    for process in found:
        with suppress(ProcessLookupError):
            os.kill(process, signal.Signals(number))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
