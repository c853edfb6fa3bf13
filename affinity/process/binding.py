"""Binds a process or a thread to its cpus."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from contextlib import suppress

from affinity.cpulist import format_cpulist
from affinity.errors import PlacementError

_FORBIDDEN = (errno.EPERM, errno.EACCES, errno.ENOSYS)


def allowed_cpus() -> tuple[int, ...]:
    """OS ids of the cpus this thread may run on: the cpuset, narrowed by taskset and others.

    Raises PlacementError where the kernel, or a filter before it, does not tell.
    """
    return tuple(sorted(_mask(0)))


def bind_process(cpus: Iterable[int]) -> None:
    """Let every thread that this process has now, and all that these start, run on `cpus` only.

    Raises PlacementError, with nothing changed, if any of `cpus` is not available: the kernel
    itself would silently take the rest.
    """
    wanted = frozenset(cpus)
    bind_thread(wanted)
    with os.scandir("/proc/self/task") as threads:
        others = [int(thread.name) for thread in threads]
    for thread in others:
        with suppress(ProcessLookupError):  # A thread that has ended since needs no place.
            bind_thread(wanted, thread)


def bind_thread(cpus: Iterable[int], thread: int = 0) -> None:
    """Let one thread, by its native id, run on `cpus` only; 0 is the calling thread.

    The cpus may lie outside those of its process, for helping threads: the cpuset alone limits
    them. Raises PlacementError, with nothing changed, if any of `cpus` is not available, or if they
    differ from the present ones and a filter forbids to change them.
    """
    wanted = frozenset(cpus)
    before = _mask(thread)
    refused: Exception | None = None
    try:
        os.sched_setaffinity(thread, wanted)
    except (OSError, OverflowError, ValueError) as error:
        refused = error
    got = _mask(thread)
    if got != wanted:
        with suppress(OSError):  # What forbids one change forbids the other: nothing has changed.
            os.sched_setaffinity(thread, before)
        asked = f"cannot run on cpus {format_cpulist(wanted) or '(none)'}"
        raise PlacementError(f"{asked}: {_why_not(before | got, refused)}")


def _mask(thread: int) -> frozenset[int]:
    try:
        return frozenset(os.sched_getaffinity(thread))
    except OSError as error:
        if error.errno not in _FORBIDDEN:
            raise
        raise PlacementError(
            "on which cpus this process may run cannot be read: "
            f"{_forbidden('sched_getaffinity', error)}"
        ) from None


def _why_not(usable: Iterable[int], refused: Exception | None) -> str:
    if isinstance(refused, OSError) and refused.errno in _FORBIDDEN:
        return _forbidden("sched_setaffinity", refused)
    reason = f" ({refused})" if refused else ""
    return (
        f"this process may use {format_cpulist(usable)}{reason}; "
        "choose among these or widen the cpuset"
    )


def _forbidden(call: str, error: OSError) -> str:
    name = errno.errorcode[error.errno or 0]
    return (
        f"{call} answers {name} ({error.strerror}), as a container's filter of system calls or a "
        f"sandbox does: start it with a filter that allows {call} "
        "(docker run --security-opt seccomp=PROFILE)"
    )
