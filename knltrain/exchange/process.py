"""Who a process is, so that a peer's end is noticed and a reused process id is not taken for it."""

from __future__ import annotations

import os
from pathlib import Path

_ID_BITS = 22
"""Linux gives process ids below 2^22 only (PID_MAX_LIMIT)."""

_ENDED = ("Z", "X", "x")
"""States of a process that runs no more, though its parent has not asked for its end yet."""


def own_identity() -> int:
    """Return the identity of this process; raise OSError where no procfs is mounted."""
    identity = identity_of(os.getpid())
    if identity is None:
        raise OSError("/proc does not show this process: expected a mounted procfs")
    return identity


def identity_of(process_id: int) -> int | None:
    """Return one number, never 0, made of a process's id and its start; None if it has ended.

    The start is in clock ticks from boot, field 22 of /proc/<pid>/stat, see proc(5).
    """
    fields = _stat_fields(process_id)
    if not fields or fields[0] in _ENDED:
        return None
    return int(fields[19]) << _ID_BITS | process_id


def process_id(identity: int) -> int:
    """Return the process id within an identity."""
    return identity & (1 << _ID_BITS) - 1


def is_alive(identity: int) -> bool:
    """Tell whether this very process still runs, or is stopped."""
    return identity_of(process_id(identity)) == identity


def is_stopped(identity: int) -> bool:
    """Tell whether a process is stopped by a signal or a debugger."""
    fields = _stat_fields(process_id(identity))
    return bool(fields) and fields[0] in ("T", "t")


def _stat_fields(process_id: int) -> list[str]:
    """Fields from the third (state) on: the second, the name, may hold blanks and brackets."""
    try:
        stat = Path(f"/proc/{process_id}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return stat.rpartition(b")")[2].decode("ascii").split()
