"""Cpus and memory that this process may use, and who limits them: cpuset, cgroup, Slurm, policy."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from affinity.cpulist import format_cpulist, parse_cpulist
from affinity.errors import MemoryPolicyError
from affinity.machine.files import FolderFiles, read_list
from affinity.numbers import format_bytes
from affinity.process.binding import allowed_cpus
from affinity.process.cgroup import Cpuset, read_cpu_quota, read_cpuset, read_memory_limit
from affinity.process.memory_policy import memory_policy
from affinity.process.own import PLACEMENT_VARIABLE
from affinity.process.slurm import SlurmWords, bound_by, slurm_notes, slurm_words, way_to_more_cpus

_ROOT = Path("/")


@dataclass(frozen=True, slots=True)
class AllowedResources:
    """OS ids of cpus and NUMA nodes that may be used.

    - `mems` is None where every memory of the machine may be used (a machine that is only
      described).
    - `cpu_quota` is the cgroup's limit of CPU time in cpus (2.5: two and a half), None if there is
      none.
    - `memory_bytes` is what all workers together may use, None where nothing limits it.
    - `said_by` names the source of each restriction; `notes` tell its cost and the remedy.
    - `way_to_more_cpus` is what a user does about too few of them.
    """

    cpus: tuple[int, ...]
    mems: tuple[int, ...] | None = None
    cpu_quota: float | None = None
    said_by: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    memory_bytes: int | None = None
    way_to_more_cpus: str = "widen the cpuset"


def read_allowed(
    root: Path = _ROOT, environment: Mapping[str, str] | None = None
) -> AllowedResources:
    """Cpus and nodes that the kernel allows the calling thread, less the binding by its starter.

    The kernel's files are read under `root`; mask and policy are always those of this thread.
    """
    words = os.environ if environment is None else environment
    slurm, cpuset = slurm_words(words), read_cpuset(root)
    said: list[str] = []
    notes: list[str] = []
    cpus = _cpus(root, cpuset, slurm, said)
    mems = _mems(root, cpuset, said, notes)
    if mems is not None:
        mems = _within_policy(mems, _starter(words, slurm), said, notes)
    quota = read_cpu_quota(root)
    if quota is not None:
        said.append(f"{quota.name}: time of {quota.cpus:g} cpus")
        if quota.cpus < len(cpus):
            notes.append(
                f"threads on all {len(cpus)} cpus would be stopped again and again: {quota.name} "
                f"gives them time of {quota.cpus:g} cpus: use fewer threads, or raise the quota"
            )
    memory = _memory(root, said, notes)
    notes += slurm_notes(slurm, len(cpus)) if slurm else ()
    allowed = AllowedResources(cpus, mems, quota and quota.cpus, tuple(said), tuple(notes), memory)
    return replace(allowed, way_to_more_cpus=way_to_more_cpus(slurm)) if slurm else allowed


def _cpus(
    root: Path, cpuset: Cpuset | None, slurm: SlurmWords | None, said: list[str]
) -> tuple[int, ...]:
    online = _listed(root, "sys/devices/system/cpu/online")
    around = online
    if cpuset and cpuset.cpus and not set(online or ()) <= set(cpuset.cpus):
        said.append(f"{cpuset.name}: cpus {_few(cpuset.cpus, online)}")
        around = cpuset.cpus
    mask = set(allowed_cpus())
    told = _status(root, "Cpus_allowed_list")
    cpus = tuple(sorted(mask & set(told or mask) or mask))
    if not set(around or ()) <= set(cpus):
        by = bound_by(slurm, cpus) if slurm else "affinity mask (taskset, or a launcher)"
        said.append(f"{by}: cpus {_few(cpus, around)}")
    return cpus


def _mems(
    root: Path, cpuset: Cpuset | None, said: list[str], notes: list[str]
) -> tuple[int, ...] | None:
    present = _listed(root, "sys/devices/system/node/has_memory")
    told = _status(root, "Mems_allowed_list")
    if told is None:
        return present
    mems = tuple(node for node in told if present is None or node in present)
    name = cpuset.name if cpuset else "cpuset"
    if not set(present or ()) <= set(mems):
        said.append(f"{name}: memory nodes {_few(mems, present)}")
    elif cpuset and cpuset.cpus and len(mems) > 1:
        online = _listed(root, "sys/devices/system/cpu/online")
        if not set(online or ()) <= set(cpuset.cpus):
            notes.append(
                f"{name} limits cpus, but no memory nodes (its cpuset.mems is not set): all of "
                f"{format_cpulist(mems)} may be used, also by others on this machine"
            )
    return mems


def _within_policy(
    mems: tuple[int, ...], starter: _Starter, said: list[str], notes: list[str]
) -> tuple[int, ...]:
    try:
        policy = memory_policy()
    except MemoryPolicyError as error:
        notes.append(str(error))
        return mems
    if policy.mode in ("default", "local"):
        return mems
    if policy.mode != "bind":
        said.append(
            f"{starter.name}: memory policy {policy}, which a placement replaces, "
            "unless its policy is none"
        )
        return mems
    kept = tuple(node for node in mems if node in policy.nodes)
    barred = format_cpulist(set(mems) - set(kept))
    if barred:
        said.append(f"{starter.name}: memory nodes {_few(kept, mems)} (memory policy {policy})")
        notes.append(
            f"{starter.name} keeps this process from memory node {barred}, which its cpuset would "
            f"let it use: {starter.way_out}"
        )
    else:
        said.append(f"{starter.name}: memory policy {policy}, which leaves out no memory node")
    return kept


def _memory(root: Path, said: list[str], notes: list[str]) -> int | None:
    """What may still be taken under the limit of a control group."""
    limit = read_memory_limit(root)
    if limit is None:
        return None
    whole, left = format_bytes(limit.limit_bytes), format_bytes(limit.left_bytes)
    said.append(f"{limit.name}: memory of {whole}, of which {left} are left")
    if limit.limit_bytes < _machine_bytes(root):
        notes.append(
            f"all processes of {limit.name} together may use {whole}, less than this machine has: "
            f"beyond the {left} that are left the kernel kills one, whatever is free on the nodes: "
            "use less, or raise the limit"
        )
    return limit.left_bytes


def _machine_bytes(root: Path) -> float:
    try:
        meminfo = (root / "proc/meminfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        meminfo = ""
    found = re.search(r"^MemTotal:\s*(\d+) kB", meminfo, re.MULTILINE)
    return int(found[1]) * 1024 if found else math.inf


class _Starter(NamedTuple):
    """Who gave this process its memory policy, as far as can be told, and how to undo it."""

    name: str
    way_out: str


def _starter(environment: Mapping[str, str], slurm: SlurmWords | None) -> _Starter:
    if PLACEMENT_VARIABLE in environment:
        return _Starter("the placement of this process", "it is meant to be so")
    if slurm and slurm.mem_bind:
        return _Starter(f"Slurm (--mem-bind={slurm.mem_bind})", "start with srun --mem-bind=none")
    if slurm:
        return _Starter("whoever started this process", "start with srun --mem-bind=none")
    return _Starter("whoever started this process", "start without numactl --membind")


def _few(kept: Iterable[int], of: Iterable[int] | None) -> str:
    return f"{format_cpulist(kept)} of {format_cpulist(of)}" if of else format_cpulist(kept)


def _listed(root: Path, path: str) -> tuple[int, ...] | None:
    return read_list(FolderFiles(root), path) or None


def _status(root: Path, field: str) -> tuple[int, ...] | None:
    try:
        status = (root / "proc/self/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = re.search(rf"^{field}:\s*(\S+)$", status, re.MULTILINE)
    return parse_cpulist(found[1]) if found else None
