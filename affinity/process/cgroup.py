"""Limits of a process's control groups: cpus, memory nodes, cpu time, memory.

Both versions, also side by side, and seen from inside a container. Files and their meaning:
Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/cpusets.rst and cgroup-v1/memory.rst of Linux.
What memory can still be allocated follows from them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from affinity.cpulist import parse_cpulist
from affinity.machine.files import FolderFiles, read_available

_V2 = "cgroup2"
_UNLIMITED = 1 << 62
"""Version 1 writes no limit as the largest whole number of pages, 2**63 less one."""


class Cpuset(NamedTuple):
    """The cpus and memory nodes in effect, None where not told; `name` names the group."""

    name: str
    cpus: tuple[int, ...] | None
    mems: tuple[int, ...] | None


class CpuQuota(NamedTuple):
    """Time on cpus in each period, in cpus (2.5: two and a half); `name` names the group."""

    name: str
    cpus: float


class MemoryLimit(NamedTuple):
    """What all processes of a group may use together, and how much of it is left, in bytes.

    What only holds copies of files is left, too: the kernel drops it when the group is full.
    """

    name: str
    limit_bytes: int
    left_bytes: int


class _Group(NamedTuple):
    version: str
    path: str
    folder: Path


def read_cpuset(root: Path) -> Cpuset | None:
    """The innermost group that tells the cpus or memory nodes of this process, or None."""
    for group in _groups(root, "cpuset"):
        if group.version == _V2:
            cpus, mems = _first(group, "cpus.effective"), _first(group, "mems.effective")
        else:  # Linux before 3.17 has no effective ones.
            cpus = _first(group, "effective_cpus", "cpus")
            mems = _first(group, "effective_mems", "mems")
        if cpus or mems:
            return Cpuset(_name(group), cpus, mems)
    return None


def read_cpu_quota(root: Path) -> CpuQuota | None:
    """The smallest quota of this process's groups and those around them, or None."""
    quotas = (
        CpuQuota(_name(group), quota)
        for group in _groups(root, "cpu")
        if (quota := _quota(group)) is not None
    )
    return min(quotas, key=lambda quota: quota.cpus, default=None)


def _quota(group: _Group) -> float | None:
    if group.version == _V2:
        words = _text(group.folder / "cpu.max").split()
    else:
        files = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        words = [_text(group.folder / file) for file in files]
    if len(words) != 2 or not all(word.isdigit() for word in words):
        return None  # "max" and -1 mean no limit.
    return int(words[0]) / int(words[1]) if int(words[1]) else None


def read_memory_limit(root: Path) -> MemoryLimit | None:
    """That of this process's groups and those around them which leaves least, or None."""
    limits = (
        limit for group in _groups(root, "memory") if (limit := _memory_limit(group)) is not None
    )
    return min(limits, key=lambda limit: limit.left_bytes, default=None)


def _memory_limit(group: _Group) -> MemoryLimit | None:
    if group.version == _V2:
        names, total = ("memory.max", "memory.current"), ""
    else:  # Without "total_" its numbers leave out the groups below.
        names, total = ("memory.limit_in_bytes", "memory.usage_in_bytes"), "total_"
    limit, used = (_text(group.folder / name) for name in names)
    if not limit.isdigit() or int(limit) >= _UNLIMITED:
        return None
    pairs = (line.partition(" ") for line in _text(group.folder / "memory.stat").splitlines())
    told = {name: _number(amount) for name, _, amount in pairs}
    cached = sum(told.get(f"{total}{state}_file", 0) for state in ("active", "inactive"))
    taken = max(0, _number(used) - cached)
    return MemoryLimit(_name(group), int(limit), max(0, int(limit) - taken))


def is_frozen(root: Path, process: int) -> bool:
    """Tell whether a process stands still because its group, or one around it, is frozen."""
    return any(map(_freezes, _groups(root, "freezer", process)))


def _freezes(group: _Group) -> bool:
    if group.version == _V2:
        return "frozen 1" in _text(group.folder / "cgroup.events").splitlines()
    return _text(group.folder / "freezer.state") == "FROZEN"


def _groups(root: Path, controller: str, process: int | str = "self") -> Iterator[_Group]:
    """A process's groups that may limit `controller`, innermost first, of both versions."""
    paths = dict(_paths(root, process))
    for version, controllers, mount, mounted in _mounts(root):
        key = "" if version == _V2 else controller
        if key not in paths or (key and key not in controllers):
            continue
        path = _below(paths[key], mounted)
        for end in range(len(path), -1, -1):
            folder = root.joinpath(mount.lstrip("/"), *path[:end])
            if folder.is_dir():
                yield _Group(version, "/" + "/".join(path[:end]), folder)


def _paths(root: Path, process: int | str) -> Iterator[tuple[str, str]]:
    for line in _text(root / f"proc/{process}/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        yield from ((name, path) for name in controllers.split(","))


def _mounts(root: Path) -> Iterator[tuple[str, list[str], str, str]]:
    for line in _text(root / "proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        fields, kinds = before.split(), after.split()
        if len(fields) > 4 and len(kinds) > 2 and kinds[0] in ("cgroup", _V2):
            yield kinds[0], kinds[2].split(","), fields[4], fields[3]


def _below(path: str, mounted: str) -> list[str]:
    # A container sees its own group mounted as if it were the root, under the host's path or "..".
    parts, base = ([part for part in p.split("/") if part] for p in (path, mounted))
    outside = ".." in parts or parts[: len(base)] != base
    return [] if outside else parts[len(base) :]


def _name(group: _Group) -> str:
    return f"{'cgroup v2' if group.version == _V2 else 'cgroup v1'} {group.path}"


def _first(group: _Group, *names: str) -> tuple[int, ...] | None:
    texts = (_text(group.folder / f"cpuset.{name}") for name in names)
    return next((parse_cpulist(text) for text in texts if text), None)


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip(" \t\r\n\0")
    except OSError:
        return ""


def available_bytes(root: Path = Path("/")) -> int:
    """Memory that programs can still take, by the kernel's estimate and this process's limits.

    Where ``/proc/meminfo`` is hidden or damaged, all memory of the machine counts as free.
    """
    told = read_available(FolderFiles(root))
    free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if told is None else told
    limit = read_memory_limit(root)
    return free if limit is None else min(free, limit.left_bytes)
