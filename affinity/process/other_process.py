"""Reads other processes: their assigned place, where they really are, and their owner."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from affinity.errors import AffinityError
from affinity.placement.plan import Placement
from affinity.process.own import own_placement
from affinity.process.residency import located_mappings, residency_of, stack_policy
from affinity.process.verification import ObservedBinding, binding_seen

_PARENT, _SESSION = 1, 3
"""Positions in ``stat`` behind the name (proc(5))."""


def placement_of(pid: int) -> Placement | None:
    """The placement of another process; None if it has none, or may not be inspected."""
    try:
        words = Path(f"/proc/{pid}/environ").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return own_placement(dict(word.partition("=")[::2] for word in words.split("\0")))


def observe(pid: int) -> ObservedBinding:
    """The `observed_binding` of another process, with the memory policy of its stack.

    Raises AffinityError if there is no such process, or it may not be inspected.
    """
    try:
        mappings = located_mappings(pid)
        return binding_seen(pid, stack_policy(mappings), residency_of(mappings))
    except OSError as error:
        raise AffinityError(
            f"cannot look at process {pid}: {error.strerror}; it has ended, or is another user's"
        ) from None


def is_launching(pid: int) -> bool:
    """Whether a process is still ``affinity.exec``, about to take its place and become a command.

    Raises AffinityError if it has ended.
    """
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError as error:
        raise AffinityError(f"process {pid} has ended: {error.strerror}") from None
    return words[1:3] == [b"-m", b"affinity.exec"]


def session_members(leaders: Collection[int]) -> dict[int, list[int]]:
    """For each leader of a session its processes: itself, and its descendants."""
    members: dict[int, list[int]] = {leader: [] for leader in leaders}
    for pid, fields in _all_processes():
        if (session := int(fields[_SESSION])) in members:
            members[session].append(pid)
    return members


def children(pid: int | None = None) -> list[int]:
    """The processes that one, by default this one, has started or adopted by any of its threads."""
    pid = pid or os.getpid()
    while lists := list(Path(f"/proc/{pid}/task").glob("*/children")):
        # A thread that ends meanwhile leaves its children to another one: look again.
        with suppress(FileNotFoundError, ProcessLookupError):
            return [int(child) for file in lists for child in file.read_text("ascii").split()]
    # A kernel without this list (CONFIG_PROC_CHILDREN).
    return [child for child, fields in _all_processes() if int(fields[_PARENT]) == pid]


def _all_processes() -> Iterator[tuple[int, list[str]]]:
    """Ids, and the fields of ``stat`` behind the name (proc(5)), which may itself hold anything."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            text = stat.read_text(encoding="utf-8", errors="replace")
            yield int(stat.parent.name), text.rpartition(")")[2].split()
