"""Binds a process, a thread or a pool of threads to cpus, and tells where threads may run."""

from __future__ import annotations

import errno
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypedDict

from affinity.cpulist import format_cpulist
from affinity.errors import PlacementError

_FORBIDDEN = (errno.EPERM, errno.EACCES, errno.ENOSYS)


class ThreadBinding(TypedDict):
    """One thread of a process: its id, the name the kernel shows, the cpus it may run on."""

    id: int
    name: str
    cpus: str


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


def thread_bindings(pid: int | str = "self") -> list[ThreadBinding]:
    """Where each thread of a process may run, by id; of another user's process none may be seen."""
    bindings: list[ThreadBinding] = []
    for thread in sorted(int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()):
        with suppress(FileNotFoundError, ProcessLookupError):  # It has ended since.
            status = Path(f"/proc/{pid}/task/{thread}/status").read_text(encoding="utf-8")
            fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
            bindings.append(
                {"id": thread, "name": fields["Name"], "cpus": fields["Cpus_allowed_list"]}
            )
    return bindings


def openmp_runtimes(pid: int | str = "self") -> list[str]:
    """Paths of the OpenMP runtimes that a process has loaded, each with a thread pool of its own.

    More than one means that several pools compete for the same cpus.
    """
    maps = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace")
    return sorted(set(re.findall(r"(/\S*/lib(?:gomp|iomp5|omp)[-.]\S*)$", maps, re.MULTILINE)))


@contextmanager
def main_thread_mask_kept() -> Iterator[None]:
    """Give the calling thread its cpus back afterwards: start OpenMP runtimes within this.

    Told to place its threads, a runtime leaves the main thread on its first place alone: GNU's as
    soon as it is loaded, Intel's with the first parallel region. Children of that thread, and
    every library that counts its cpus later, would find just this one.

    For programs whose main thread starts children; a training worker does without: in steps of
    LeNet on 2 cores GNU's master thread roamed onto its peer's core, at half the speed and less.
    """
    before = allowed_cpus()
    try:
        yield
    finally:
        if allowed_cpus() != before:
            os.sched_setaffinity(0, before)


def pin_own_threads(
    cores: Sequence[Sequence[int]], thread_ids: Callable[[], Iterable[int]]
) -> tuple[int, ...]:
    """Pin the threads of a pool of this process, one to each of `cores` (the cpus of each).

    For pools that place no threads themselves, such as Numba's. `thread_ids` runs something in
    each thread of the pool and gives their native ids, as they follow each other: thread i gets
    core i. The calling thread keeps its cpus also if it is one of them, as it is in OpenMP: its
    children, and libraries that count its cpus, would find one core alone.
    Returns the ids of the pinned threads. Raises PlacementError if there are not as many threads
    as cores, and then pins none.
    """
    with main_thread_mask_kept():
        threads = tuple(thread_ids())
    if len(threads) != len(cores) or len(set(threads)) != len(threads):
        raise PlacementError(
            f"{len(set(threads))} threads for {len(cores)} cores: start a pool of {len(cores)} "
            "threads and let each give its id once"
        )
    here = threading.get_native_id()
    for thread, cpus in zip(threads, cores, strict=True):
        if thread != here:
            bind_thread(cpus, thread)
    return tuple(thread for thread in threads if thread != here)


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
