"""The identity of a worker process in its run, passed to it by environment variables."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from affinity.numbers import whole_number
from knltrain.errors import RunFolderError

PREFIX = "KNLTRAIN_"


@dataclass(frozen=True, slots=True)
class MeetingPoint:
    """The address of the rendezvous of the first workers of all nodes, or of the ranks of MPI.

    Rank 0 listens there, at the inherited file descriptor ``fd``, which is None in the others.
    ``own_address`` is the address of this computer from which it is reached.
    """

    host: str
    port: int
    own_address: str
    fd: int | None = None


@dataclass(frozen=True, slots=True)
class WorkerIdentity:
    """What a worker process must know before it can read anything else.

    - `rank`: its number among all `workers`, of all nodes
    - `segment_fds`, `events_fd`: inherited file descriptors; without shared memory there are no
      `segment_fds`
    - `meeting_point`: None on a single node, unless the workers are one MPI job
    - `requests`: the file descriptor of the board of its process's workers
      (`knltrain.exchange.transports.board`), and this worker's line on it
    - `data_fd`: that of the node's copy of the data set (`knltrain.input.node_data`); None where
      each worker opens it
    - `batches`: that of the batches made ahead (`knltrain.input.batch_ring`), this worker's number
      among those that have some there, and how many these are; None where it makes its own
    - `initial`: those of the initial parameters, and of the pipe that tells when they are drawn
      (`knltrain.assembly.initial_parameters`); None where it draws its own
    """

    rank: int
    workers: int
    run_folder: Path
    events_fd: int
    segment_fds: tuple[int, ...]
    threads: int
    resume: bool
    meeting_point: MeetingPoint | None = None
    requests: tuple[int, int] | None = None
    data_fd: int | None = None
    batches: tuple[int, int, int] | None = None
    initial: tuple[int, int] | None = None

    def to_environment(self) -> dict[str, str]:
        """Return the environment variables from which `worker_identity` reads this identity."""
        values = {
            "RANK": str(self.rank),
            "WORKERS": str(self.workers),
            "RUN_FOLDER": str(self.run_folder),
            "EVENTS_FD": str(self.events_fd),
            "SEGMENT_FDS": ",".join(map(str, self.segment_fds)),
            "THREADS": str(self.threads),
            "RESUME": str(int(self.resume)),
            "MEETING_POINT": json.dumps(self.meeting_point and asdict(self.meeting_point)),
            "REQUESTS": json.dumps(self.requests),
            "DATA": json.dumps(None if self.data_fd is None else [self.data_fd]),
            "BATCHES": json.dumps(self.batches),
            "INITIAL": json.dumps(self.initial),
        }
        return {PREFIX + name: value for name, value in values.items()}


def worker_identity(environment: Mapping[str, str] | None = None) -> WorkerIdentity:
    """Return the identity of this process from its environment variables.

    Raises RunFolderError if a variable is missing or invalid: `knltrain train` has not started the
    process.
    """
    values = os.environ if environment is None else environment
    fds = [fd for fd in _required(values, "SEGMENT_FDS").split(",") if fd]
    requests, data = _numbers(values, "REQUESTS", 2), _numbers(values, "DATA", 1)
    batches, initial = _numbers(values, "BATCHES", 3), _numbers(values, "INITIAL", 2)
    return WorkerIdentity(
        rank=_number(values, "RANK"),
        workers=_number(values, "WORKERS"),
        run_folder=Path(_required(values, "RUN_FOLDER")),
        events_fd=_number(values, "EVENTS_FD"),
        segment_fds=tuple(_number({f"{PREFIX}SEGMENT_FDS": fd}, "SEGMENT_FDS") for fd in fds),
        threads=_number(values, "THREADS"),
        resume=_required(values, "RESUME") == "1",
        meeting_point=_meeting_point(_required(values, "MEETING_POINT")),
        requests=None if requests is None else (requests[0], requests[1]),
        data_fd=None if data is None else data[0],
        batches=None if batches is None else (batches[0], batches[1], batches[2]),
        initial=None if initial is None else (initial[0], initial[1]),
    )


def _meeting_point(text: str) -> MeetingPoint | None:
    try:
        found = json.loads(text)
        return None if found is None else MeetingPoint(**found)
    except (ValueError, TypeError, RecursionError):
        raise _not_ours("MEETING_POINT", text) from None


def _number(environment: Mapping[str, str], name: str) -> int:
    text = _required(environment, name)
    found = whole_number(text)
    if found is None:
        raise _not_ours(name, text)
    return found


def _not_ours(name: str, text: str) -> RunFolderError:
    return RunFolderError(
        f"{PREFIX}{name} is '{text[:200]}': a worker process is started by `knltrain train`, which "
        "writes something else there"
    )


def _numbers(environment: Mapping[str, str], name: str, count: int) -> list[int] | None:
    """So many numbers from 0 on; None for null."""
    text = _required(environment, name)
    try:
        found = json.loads(text)
        if found is None:
            return None
        if type(found) is not list or len(found) != count:
            raise ValueError(text)
        if any(type(each) is not int or each < 0 for each in found):
            raise ValueError(text)
    except (ValueError, TypeError, RecursionError):
        raise _not_ours(name, text) from None
    return found


def _required(environment: Mapping[str, str], name: str) -> str:
    try:
        return environment[PREFIX + name]
    except KeyError:
        raise RunFolderError(
            f"{PREFIX}{name} is not set: a worker process is started by `knltrain train`, "
            "not by hand"
        ) from None
