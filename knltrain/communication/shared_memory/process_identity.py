"""The identity of a process, and its state: running, stopped, without a core, or ending.

By these a worker notices the end of a peer, and does not take a reused process id for the peer.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import final

from affinity.process.cgroup import is_frozen

_ID_BITS = 22
"""Linux gives process ids below 2^22 only (PID_MAX_LIMIT)."""

_ENDED = ("Z", "X", "x")
"""States of a process that has ended, though its parent has not reaped it yet (zombie)."""

_LEAVING = 0x4 | 0x400
"""PF_EXITING, PF_SIGNALED: the kernel is ending a thread, which never runs its program again.

The kernel then frees the memory of the process, or writes a core file, which takes seconds for
gigabytes of small pages. It reports the end to other processes only after that.
"""

_STOPPED = ("T", "t")
_ASLEEP = ("S", "D")
_FREEZERS = ("__refrigerator", "do_freezer_trap", "get_signal")
"""The kernel function that a frozen thread waits in, if it was not asleep before."""

_ROOT = Path("/")


def own_identity() -> int:
    """Return the identity of this process; raise OSError where no procfs is mounted."""
    identity = identity_of(os.getpid())
    if identity is None:
        raise OSError("/proc does not show this process: expected a mounted procfs")
    return identity


def identity_of(process_id: int) -> int | None:
    """Return one number, never 0, of a process's id and its start time; None if it has ended.

    The start time is in clock ticks from boot, field 22 of /proc/<pid>/stat, see proc(5).
    """
    fields = _fields(_read(f"/proc/{process_id}/stat"))
    if not fields or _is_ending(process_id, fields):
        return None
    return _identity(process_id, fields)


def process_id(identity: int) -> int:
    """Return the process id within an identity."""
    return identity & (1 << _ID_BITS) - 1


def is_alive(identity: int) -> bool:
    """Tell whether this very process runs or is stopped.

    False as soon as all of its threads are ending, however long the kernel takes for that.
    """
    return identity_of(process_id(identity)) == identity


def standstill(identity: int) -> str | None:
    """Return how a process is stopped, as in ``stopped (state T)``; None if it is not.

    A signal, a debugger, or the freezer of its control group may have stopped it.
    """
    number = process_id(identity)
    fields = _fields(_read(f"/proc/{number}/stat"))
    if not fields or _identity(number, fields) != identity:
        return None
    return _standstill(number, fields[0])


def named(identity: int) -> str:
    """Return the name of a process in messages; it must be on this host."""
    return f"process {process_id(identity)} on host {socket.gethostname()}"


def run_delay_seconds(identity: int) -> float:
    """Return how long the threads of a process, summed, were ready to run but had no core."""
    told = (_read(task / "schedstat").split() for task in _tasks(process_id(identity)))
    return sum(int(numbers[1]) for numbers in told if len(numbers) > 1) * 1e-9


@final
class Sight:
    """A child of this process, observed through an open file of /proc until `close`.

    The open file never shows another process with the same process id.
    """

    def __init__(self, process_id: int) -> None:
        self._process_id = process_id
        self._fd = os.open(f"/proc/{process_id}/stat", os.O_RDONLY | os.O_CLOEXEC)
        self._busy: list[str] = []

    def is_ending(self) -> bool:
        """Tell whether it has ended, or all of its threads are ending."""
        fields = self._look()
        return not fields or _is_ending(self._process_id, fields)

    def standstill(self) -> str | None:
        """Return how it is stopped, as the function `standstill` does."""
        fields = self._look()
        busy, self._busy = self._busy, fields[11:13]
        if not fields or (fields[0] in _ASLEEP and fields[11:13] != busy):
            return None  # it has run since the last look
        return _standstill(self._process_id, fields[0])

    def exit_code(self) -> int | None:
        """Return the exit code, or a negative signal, of an ending process; None if not known yet.

        None also if the code is 0: the kernel shows 0 as well before it knows the code.
        """
        status = (self._look()[49:50] or ["0"])[0]  # field 52
        return os.waitstatus_to_exitcode(int(status)) if int(status) else None

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def _look(self) -> list[str]:
        with suppress(ProcessLookupError):
            return _fields(os.pread(self._fd, 4096, 0))
        return []


def _identity(process_id: int, fields: list[str]) -> int:
    return int(fields[19]) << _ID_BITS | process_id


def _standstill(process_id: int, state: str) -> str | None:
    if state in _STOPPED:
        return f"stopped (state {state})"
    if state not in _ASLEEP:
        return None
    place = _read(f"/proc/{process_id}/wchan").decode()
    if place in _FREEZERS or is_frozen(_ROOT, process_id):
        return f"frozen by its control group (state {state})"
    return None


def _is_ending(process_id: int, fields: list[str]) -> bool:
    """Tell whether no thread is left that may run its program again."""
    return _is_leaving(fields) and all(
        _is_leaving(_fields(_read(task / "stat"))) for task in _tasks(process_id)
    )


def _is_leaving(fields: list[str]) -> bool:
    return not fields or fields[0] in _ENDED or bool(int(fields[6]) & _LEAVING)


def _tasks(process_id: int) -> Iterator[Path]:
    with suppress(FileNotFoundError, ProcessLookupError):
        yield from Path(f"/proc/{process_id}/task").iterdir()


def _read(path: str | Path) -> bytes:
    """Return the contents of a file of /proc; b"" if the process is gone, or access is denied."""
    with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
        return Path(path).read_bytes()
    return b""


def _fields(stat: bytes) -> list[str]:
    """Return the fields from the third (state) on; the second, the name, may have blanks and )."""
    return stat.rpartition(b")")[2].decode("ascii").split()
