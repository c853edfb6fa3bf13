"""Compiles many kernels in parallel, in this process and in forks of it.

Numba compiles under one lock of a process, and half of the work is Python, so threads would not
help. Forks have all modules imported already. All take one kernel after another, the largest
first, and skip kernels that another process is compiling for the same cache.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from numba.core.registry import cpu_target

from vectorized_ops.numba.compiling.journal import JOURNAL, MadeKernel, Progress
from vectorized_ops.numba.compiling.recording import WantedKernel

_NUMBER: Final = struct.Struct("<I")
_DONE: Final = struct.Struct("<I?d")
_PR_SET_PDEATHSIG: Final = 1


def compile_missing(wanted: Sequence[WantedKernel], processes: int) -> Iterator[Progress]:
    """Compile the kernels that are not in the cache, in so many processes; yield each when ready.

    One of them is this process: each fork copies most of its memory, for counts of references. It
    must have no threads, or none that forks need. What forks made is told after the next kernel
    made here. Kernels that fail to compile are left out.
    """
    missing = [one for one in wanted if not one.shared.has(one.names)]
    if not missing:
        return
    sizes = {one.names.own: one.size for one in missing}
    missing.sort(key=lambda one: -sizes[one.names.own])
    cpu_target.target_context.refresh()  # what all forks need is loaded once
    jobs, done = _pipe_with(range(len(missing))), os.pipe()
    collects = gc.isenabled()
    gc.disable()  # what compiling leaves is little
    forks = min(processes, len(missing)) - 1
    children = [_forked(lambda: list(_work(missing, jobs, done[1]))) for _ in range(forks)]
    begin, size, count = time.monotonic(), 0, 0
    try:
        for number, compiled, seconds in _records(done, _work(missing, jobs, done[1])):
            size, count = size + sizes[missing[number].names.own], count + 1
            rest = sum(sizes.values()) - size
            left = (time.monotonic() - begin) * rest / size
            made = MadeKernel(*missing[number].told, compiled, seconds)
            yield Progress(made, count, len(missing), left)
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        for pipe in (jobs, *done):
            os.close(pipe)
        if collects:
            gc.enable()


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process when its `parent` ends, even if that has already ended."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _forked(work: Callable[[], object]) -> int:
    parent, child = os.getpid(), os.fork()
    if child:
        return child
    try:
        die_with_parent(parent)
        work()
    finally:
        os._exit(0)


def _work(missing: Sequence[WantedKernel], jobs: int, done: int) -> Iterator[None]:
    """Compile kernels while there are any, and pause after each.

    Those that other processes compile come last.
    """
    elsewhere = []
    while number := os.read(jobs, _NUMBER.size):
        (index,) = _NUMBER.unpack(number)
        if missing[index].shared.is_being_made(missing[index].names.own):
            elsewhere.append(index)
        else:
            _make(missing, index, done)
            yield
    for index in elsewhere:
        _make(missing, index, done)
        yield


def _make(missing: Sequence[WantedKernel], index: int, done: int) -> None:
    before = len(JOURNAL.made)
    try:
        missing[index].make()
    except Exception:  # noqa: BLE001  (whoever needs it will fail in the same way, and tell)
        return
    for made in JOURNAL.made[before:]:
        os.write(done, _DONE.pack(index, made.compiled, made.seconds))


def _pipe_with(numbers: Sequence[int]) -> int:
    """A pipe from which each reader takes a number: there is room for thousands of them."""
    reader, writer = os.pipe()
    os.write(writer, b"".join(map(_NUMBER.pack, numbers)))
    os.close(writer)
    return reader


def _records(done: tuple[int, int], work: Iterator[None]) -> Iterator[tuple[int, bool, float]]:
    """What has been made: told after each piece of own work, and then until the forks end."""
    os.set_blocking(done[0], False)
    for _ in work:
        yield from _those_there(done[0])
    os.set_blocking(done[0], True)
    os.dup2(done[0], done[1])  # so that the forks have the only ends that can be written
    yield from _those_there(done[0])


def _those_there(pipe: int) -> Iterator[tuple[int, bool, float]]:
    with suppress(BlockingIOError):
        while record := os.read(pipe, _DONE.size):
            number, compiled, seconds = _DONE.unpack(record)
            yield number, compiled, seconds
