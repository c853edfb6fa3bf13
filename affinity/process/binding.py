"""Putting a process or a thread on its cpus."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from affinity.cpulist import format_cpulist
from affinity.errors import PlacementError


def allowed_cpus() -> tuple[int, ...]:
    """OS ids of the cpus this thread may run on: the cpuset, narrowed by taskset and others."""
    return tuple(sorted(os.sched_getaffinity(0)))


def bind_process(cpus: Iterable[int]) -> None:
    """Let every thread that this process has now, and all that these start, run on `cpus` only.

    Raises PlacementError, with nothing changed, if any of `cpus` cannot be had: the kernel itself
    would silently take the rest.
    """
    wanted = frozenset(cpus)
    bind_thread(wanted)
    with os.scandir("/proc/self/task") as threads:
        others = [int(thread.name) for thread in threads]
    for thread in others:
        with suppress(ProcessLookupError):  # A thread that has ended since needs no place.
            os.sched_setaffinity(thread, wanted)


def bind_thread(cpus: Iterable[int], thread: int = 0) -> None:
    """Let one thread, by its native id, run on `cpus` only; 0 is the one that calls.

    So a helping thread gets to cpus beside those of its process: the cpuset alone limits it.
    Raises PlacementError, with nothing changed, if any of `cpus` cannot be had.
    """
    wanted = frozenset(cpus)
    before = os.sched_getaffinity(thread)
    reason = ""
    try:
        os.sched_setaffinity(thread, wanted)
    except (OSError, OverflowError, ValueError) as error:
        reason = f" ({error})"
    got = os.sched_getaffinity(thread)
    if reason or got != wanted:
        os.sched_setaffinity(thread, before)
        raise PlacementError(
            f"cannot run on cpus {format_cpulist(wanted) or '(none)'}: this process may use "
            f"{format_cpulist(before | got)}{reason}; choose among these or widen the cpuset"
        )
