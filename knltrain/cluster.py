"""Who this process is in a run, and what its environment says of processors.

Only this reads the variables KNLTRAIN_*.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from knltrain.errors import RunFolderError

PREFIX = "KNLTRAIN_"


@dataclass(frozen=True, slots=True)
class WorkerIdentity:
    """What one worker process must know before it can read anything else.

    `segment_fds` and `events_fd` are file descriptors inherited from the launching process;
    a run without shared memory has no `segment_fds`.
    """

    rank: int
    workers: int
    run_folder: Path
    events_fd: int
    segment_fds: tuple[int, ...]
    threads: int
    resume: bool

    def to_environment(self) -> dict[str, str]:
        """Environment variables from which `worker_identity` reads this identity back."""
        values = {
            "RANK": str(self.rank),
            "WORKERS": str(self.workers),
            "RUN_FOLDER": str(self.run_folder),
            "EVENTS_FD": str(self.events_fd),
            "SEGMENT_FDS": ",".join(map(str, self.segment_fds)),
            "THREADS": str(self.threads),
            "RESUME": str(int(self.resume)),
        }
        return {PREFIX + name: value for name, value in values.items()}


def worker_identity(environment: Mapping[str, str] | None = None) -> WorkerIdentity:
    """Identity of this process as its launcher wrote it.

    Raises RunFolderError when a variable is missing: the process was not started by a launcher.
    """
    values = os.environ if environment is None else environment
    return WorkerIdentity(
        rank=int(_required(values, "RANK")),
        workers=int(_required(values, "WORKERS")),
        run_folder=Path(_required(values, "RUN_FOLDER")),
        events_fd=int(_required(values, "EVENTS_FD")),
        segment_fds=tuple(int(fd) for fd in _required(values, "SEGMENT_FDS").split(",") if fd),
        threads=int(_required(values, "THREADS")),
        resume=_required(values, "RESUME") == "1",
    )


def _required(environment: Mapping[str, str], name: str) -> str:
    try:
        return environment[PREFIX + name]
    except KeyError:
        raise RunFolderError(
            f"{PREFIX}{name} is not set: a worker process is started by `knltrain train`, "
            "not by hand"
        ) from None


PROCESSOR_SETTINGS = ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "ONEDNN_MAX_CPU_ISA")
"""Variables that have Numba or oneDNN compute for another processor than this one."""


def processor_settings(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return those of PROCESSOR_SETTINGS that are set, in os.environ by default."""
    values = os.environ if environment is None else environment
    return {name: values[name] for name in PROCESSOR_SETTINGS if name in values}


def set_unless_set(values: Mapping[str, str]) -> None:
    """Set variables for libraries that this process is about to load; what the user set stays."""
    for name, value in values.items():
        os.environ.setdefault(name, value)


def is_set(name: str) -> bool:
    """Tell whether the user has set a variable."""
    return name in os.environ
