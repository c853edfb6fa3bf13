"""Putting a process on its cpus, and seeing where its threads really are."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypedDict

from affinity.cpulist import format_cpulist, parse_cpulist
from affinity.errors import PlacementError

THREAD_COUNT_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)

THREAD_PLACEMENT_VARIABLES = (
    "OMP_PROC_BIND",
    "OMP_PLACES",
    "GOMP_CPU_AFFINITY",
    "KMP_AFFINITY",
)
"""Variables by which an OpenMP runtime moves threads behind the back of `bind_process`.

GNU's runtime obeys as soon as it is loaded: it leaves the main thread on its first place alone,
and every thread pool that counts its cpus later finds one.
"""


class ThreadBinding(TypedDict):
    """One thread of this process: its id, the name the kernel shows, the cpus it may run on."""

    id: int
    name: str
    cpus: str


class ObservedBinding(TypedDict):
    """Where this process really is: plain JSON-able facts for the record of a run."""

    cpus: str
    threads: list[ThreadBinding]
    openmp_runtimes: list[str]


def allowed_cpus() -> tuple[int, ...]:
    """OS ids of the cpus this process may run on: the cpuset, narrowed by taskset and others."""
    return tuple(sorted(os.sched_getaffinity(0)))


def bind_process(cpus: Iterable[int]) -> None:
    """Let every thread that this process has now, and all that these start, run on `cpus` only.

    Raises PlacementError, with nothing changed, if any of `cpus` cannot be had: the kernel itself
    would silently take the rest.
    """
    wanted = frozenset(cpus)
    before = os.sched_getaffinity(0)
    reason = ""
    try:
        os.sched_setaffinity(0, wanted)
    except (OSError, OverflowError, ValueError) as error:
        reason = f" ({error})"
    got = os.sched_getaffinity(0)
    if reason or got != wanted:
        os.sched_setaffinity(0, before)
        raise PlacementError(
            f"cannot run on cpus {format_cpulist(wanted) or '(none)'}: this process may use "
            f"{format_cpulist(before | got)}{reason}; choose among these or widen the cpuset"
        )
    for thread in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):  # A thread that has ended since needs no place.
            os.sched_setaffinity(int(thread.name), wanted)


def thread_environment(threads: int, cores: Sequence[Sequence[int]] = ()) -> dict[str, str]:
    """Variables that give every numerical library `threads` threads, read when it is loaded.

    With as many `cores` (the cpus of each) every OpenMP thread stays on its own, and its data in
    the caches of that core. OpenMP then leaves the main thread on the first core, too.
    Otherwise threads roam within the mask of their process.
    """
    counts = dict.fromkeys(THREAD_COUNT_VARIABLES, str(threads))
    if threads == 1 or len(cores) != threads:
        return counts
    places = ",".join(f"{{{','.join(map(str, cpus))}}}" for cpus in cores)
    return {**counts, "OMP_PLACES": places, "OMP_PROC_BIND": "close"}


def placement_environment() -> dict[str, str]:
    """The `THREAD_PLACEMENT_VARIABLES` that are set for this process, with their values."""
    return {name: os.environ[name] for name in THREAD_PLACEMENT_VARIABLES if name in os.environ}


def observed_binding() -> ObservedBinding:
    """Read from the kernel where each thread of this process may run right now.

    ``cpus`` are those of all threads together, as OpenMP keeps the main thread on one core alone.
    More than one path in ``openmp_runtimes`` means that several pools compete for the same cpus.
    """
    threads = _thread_bindings()
    return {
        "cpus": format_cpulist(cpu for thread in threads for cpu in parse_cpulist(thread["cpus"])),
        "threads": threads,
        "openmp_runtimes": _openmp_runtimes(),
    }


def _thread_bindings() -> list[ThreadBinding]:
    bindings: list[ThreadBinding] = []
    for thread in sorted(int(path.name) for path in Path("/proc/self/task").iterdir()):
        with suppress(FileNotFoundError, ProcessLookupError):  # It has ended since.
            status = Path(f"/proc/self/task/{thread}/status").read_text(encoding="utf-8")
            fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
            bindings.append(
                {"id": thread, "name": fields["Name"], "cpus": fields["Cpus_allowed_list"]}
            )
    return bindings


def _openmp_runtimes() -> list[str]:
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    return sorted(set(re.findall(r"(/\S*/lib(?:gomp|iomp5|omp)[-.]\S*)$", maps, re.MULTILINE)))
