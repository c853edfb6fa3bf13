"""The cpuset of the process that captured a machine, as the capture recorded it.

A capture has ``/proc/self`` of the process that copied the files, and the limits of its control
group. The machine is larger than that, so these limits are noted and not applied.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from posixpath import normpath
from typing import NamedTuple

from affinity.cpulist import format_cpulist
from affinity.machine.description import Description
from affinity.machine.files import MachineFiles, read_list, to_list

STATUS = "proc/self/status"

NOT_ALLOWED = "were not allowed to the process that captured this machine"


class _Place(NamedTuple):
    """Folder of the captor's group, and what stands before and after the names of its files."""

    folder: str
    before: str
    after: str = ""


def note_captor(files: MachineFiles, description: Description) -> None:
    """Note the cpus and memory nodes of the machine that its captor could not use.

    Raises TopologyError if a field of its status or control group is not a list.
    """
    for word, file, there in (
        ("cpus", "cpus", description.threads),
        ("NUMA nodes", "mems", description.nodes),
    ):
        allowed = _allowed(files, file)
        if allowed and (forbidden := set(there).difference(allowed)):
            description.notes.append(f"{word} {format_cpulist(forbidden)} {NOT_ALLOWED}")


def captor_status(files: MachineFiles) -> str:
    """The lines of the captor's status with its cpus and nodes, for a new capture."""
    lines = (files.read_text(STATUS) or "").splitlines()
    return "".join(f"{line}\n" for line in lines if re.match(r"(Cpus|Mems)_allowed_list:", line))


def _allowed(files: MachineFiles, file: str) -> set[int] | None:
    """The cpus and nodes that status and control group both allow; None if neither tells."""
    told = []
    field = {"cpus": "Cpus", "mems": "Mems"}[file]
    status = files.read_text(STATUS) or ""
    if found := re.search(rf"^{field}_allowed_list:\s*([\d,-]+)\s*$", status, re.MULTILINE):
        told.append(set(to_list(found[1], files.where(STATUS))))
    for place in _places(files):
        path = f"{place.folder}/{place.before}{file}{place.after}".lstrip("/")
        if cpus := read_list(files, path):
            told.append(set(cpus))
    return set.intersection(*told) if told else None


def _places(files: MachineFiles) -> Iterator[_Place]:
    """Where the captor's control groups keep its cpuset, by ``proc/mounts``."""
    named = files.read_text("proc/self/cpuset") or ""
    groups = files.read_text("proc/self/cgroup") or ""
    unified = re.search(r"^0::(/.*)$", groups, re.MULTILINE)
    older = re.search(r"^\d+:(?:[^:\n]*,)?cpuset(?:,[^:\n]*)?:(/.*)$", groups, re.MULTILINE)
    name = named or (older[1] if older else "")
    in_unified = unified[1] if unified else named
    for line in (files.read_text("proc/mounts") or "").splitlines():
        _, folder, kind, options, *_ = (*line.split(), "", "", "", "")
        if kind == "cgroup2" and in_unified:
            yield _Place(_joined(folder, in_unified), "cpuset.", ".effective")
        elif kind == "cpuset" and name:
            yield _Place(_joined(folder, name), "")
        elif kind == "cgroup" and "cpuset" in options.split(",") and name:
            bare = "noprefix" in options.split(",")
            yield _Place(_joined(folder, name), "" if bare else "cpuset.")


def _joined(folder: str, name: str) -> str:
    # Never out of the capture: what climbs above its root stays there.
    return normpath(f"/{folder}/{name}").lstrip("/")
