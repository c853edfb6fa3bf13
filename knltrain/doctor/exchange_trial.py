"""The doctor's self-test: real workers, on their own cores, exchange once through shared memory."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from affinity import (
    AffinityError,
    Placement,
    Request,
    format_cpulist,
    physical_cores,
    pinned_command,
    place_workers,
    read_allowed,
    read_topology,
    thread_environment,
    tiles_of,
)
from knltrain.errors import KnltrainError, SegmentError

if TYPE_CHECKING:
    from knltrain.exchange.transports.segment import Segment

TIME_LIMIT_SECONDS = 20.0

_ELEMENTS = 100_000
_SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class SelfTestResult:
    """The result of the self-test; `reason` is the fault, empty when `ok`.

    `no_room` says why the workers' memory did not fit in /dev/shm and was a memfd instead.
    """

    ok: bool
    workers: int
    seconds: float
    reason: str
    no_room: str = ""


def self_test(time_limit_seconds: float = TIME_LIMIT_SECONDS) -> SelfTestResult:
    """Let two workers (one on a single core) do a synchronous elastic exchange and check it.

    Where /dev/shm has no room they exchange through a memfd, as runs can be configured to do. Every
    worker checks its cpus, its local and the center. No process and no shared memory is left
    behind, whatever happens.
    """
    started = time.monotonic()
    placements: tuple[Placement, ...] = ()
    no_room = ""
    try:
        topology, allowed = read_topology(), read_allowed()
        workers = min(2, len(tiles_of(topology, physical_cores(topology, allowed.cpus))))
        placements = place_workers(topology, allowed, Request(workers)).workers
        segment, no_room = _segment(workers)
        reason = _try_exchange(placements, segment, started + time_limit_seconds)
    except (AffinityError, KnltrainError, ImportError, OSError) as error:
        reason = f"{type(error).__name__}: {error}"
    seconds = time.monotonic() - started
    return SelfTestResult(not reason, len(placements), seconds, reason, no_room)


def _segment(workers: int) -> tuple[Segment, str]:
    """A segment in /dev/shm or else a memfd, and why it is not in /dev/shm."""
    from knltrain.exchange.transports.segment import Segment

    try:
        return Segment.create(_ELEMENTS, workers, "shm", _SHARED_MEMORY), ""
    except SegmentError as no_room:
        try:
            return Segment.create(_ELEMENTS, workers, "memfd"), str(no_room)
        except SegmentError as error:
            raise SegmentError(f"{no_room}; nor is there a memfd: {error}") from None


def _try_exchange(placements: Sequence[Placement], segment: Segment, deadline: float) -> str:
    """Start the workers, wait for them, close the segment, and return what went wrong."""
    processes: list[subprocess.Popen[str]] = []
    try:
        for placement in placements:
            processes.append(_start(placement, segment.fd))
        complaints = [_wait(rank, process, deadline) for rank, process in enumerate(processes)]
        return "; ".join(filter(None, complaints))
    finally:
        for process in processes:
            process.kill()
            process.communicate()
        segment.close()


def _start(placement: Placement, fd: int) -> subprocess.Popen[str]:
    cpus = format_cpulist(placement.cpus)
    worker = [
        sys.executable,
        "-m",
        "knltrain.doctor.trial_worker",
        str(placement.rank),
        str(fd),
        cpus,
    ]
    command = pinned_command(
        worker, placement.cpus, thread_environment(placement.threads), die_with_parent=os.getpid()
    )
    return subprocess.Popen(
        command, pass_fds=[fd], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def _wait(rank: int, process: subprocess.Popen[str], deadline: float) -> str:
    try:
        _, errors = process.communicate(timeout=max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return f"worker {rank} did not finish in time"
    if process.returncode == 0:
        return ""
    last_line = (errors.strip().splitlines() or ["no message"])[-1]
    return f"worker {rank} ended with status {process.returncode}: {last_line}"
