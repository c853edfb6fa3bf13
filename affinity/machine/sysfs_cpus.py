"""Online cpus with their core and package, from sysfs and procfs.

File names changed over the years (thread_siblings, core_cpus), some kernels and containers lack a
few, and captures keep empty ones. A missing fact of a cpu is taken from the files of other cpus,
then from ``/proc/cpuinfo``, and is noted where no file has it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from affinity.cpulist import format_cpulist
from affinity.errors import TopologyError
from affinity.machine.description import ThreadPlace
from affinity.machine.files import (
    CPUINFO,
    MachineFiles,
    find_cpus,
    numbers,
    read_cpuinfo,
    read_int,
    read_list,
    to_int,
)

CPUS = "sys/devices/system/cpu"

_NO_PACKAGE = 1 << 31
"""From here on an id is -1 without its sign: the kernel's word for a package it does not know."""

_CORE_SETS = ("thread_siblings", "core_cpus")
_PACKAGE_SETS = ("core_siblings", "package_cpus", "die_cpus")


@dataclass(slots=True)
class Cpus:
    """The cpus that run with the place of each, those that are switched off, and what told so."""

    places: dict[int, ThreadPlace]
    offline: tuple[int, ...]
    source: str
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Told:
    """What the files tell of one cpu; `siblings` are the cpus of its core, None: not told.

    `around` are its die and its cluster, for who has no siblings.
    """

    core: int | None = None
    package: int | None = None
    siblings: frozenset[int] | None = None
    around: tuple[str | None, ...] = (None, None)

    @property
    def tells_core(self) -> bool:
        """Whether anything says which core it belongs to."""
        return self.core is not None or self.siblings is not None


def read_cpus_and_cores(files: MachineFiles) -> Cpus:
    """Read them; TopologyError when nothing tells of any cpu, or a file holds garbage."""
    folders = frozenset(numbers(files, CPUS, "cpu"))
    listed = frozenset(read_list(files, f"{CPUS}/online") or ())
    off = _switched_off(files, folders, listed)
    told = {cpu: _read_cpu(files, cpu) for cpu in sorted((folders | listed) - off)}
    if not any(facts.tells_core for facts in told.values()):
        found = _without_topology(files, folders, listed, off)
    else:
        found = _with_topology(files, told, listed)
    present = frozenset(read_list(files, f"{CPUS}/present") or folders) | (off & folders)
    found.offline = tuple(sorted(present.difference(found.places)))
    return found


def _switched_off(
    files: MachineFiles, folders: frozenset[int], listed: frozenset[int]
) -> frozenset[int]:
    """Cpus of which a file says so: their own, or else the list of them."""
    states = {cpu: read_int(files, f"{CPUS}/cpu{cpu}/online") for cpu in folders}
    out = frozenset(read_list(files, f"{CPUS}/offline") or ()) - listed
    return frozenset(
        cpu for cpu in folders | out if states.get(cpu) == 0 or (cpu in out and not states.get(cpu))
    )


def _read_cpu(files: MachineFiles, cpu: int) -> _Told:
    folder = f"{CPUS}/cpu{cpu}/topology"
    core = read_int(files, f"{folder}/core_id")
    siblings = _set(files, folder, _CORE_SETS)
    # Core ids repeat between the dies and clusters of some packages, sets of siblings never do.
    around = (None, None) if siblings or core is None else _around(files, folder)
    return _Told(
        None if core is None or core < 0 else core, _package(files, folder), siblings, around
    )


def _package(files: MachineFiles, folder: str) -> int | None:
    number = read_int(files, f"{folder}/physical_package_id")
    return number if number is not None and 0 <= number < _NO_PACKAGE else None


def _set(files: MachineFiles, folder: str, names: Collection[str]) -> frozenset[int] | None:
    """The first of these sets that has anything in it."""
    found = (find_cpus(files, folder, f"{name}_list", name) for name in names)
    return next((frozenset(cpus) for cpus in found if cpus), None)


def _around(files: MachineFiles, folder: str) -> tuple[str | None, ...]:
    """What tells cores with one id in one package apart, where nothing tells their threads."""
    sets = ((kind, _set(files, folder, (f"{kind}_cpus",))) for kind in ("die", "cluster"))
    return tuple(
        f"{kind} of cpus {format_cpulist(cpus)}"
        if cpus
        else files.read_text(f"{folder}/{kind}_id") or None
        for kind, cpus in sets
    )


def _with_topology(files: MachineFiles, told: Mapping[int, _Told], listed: frozenset[int]) -> Cpus:
    """Where sysfs tells the cores of some cpus at least; most often of all."""
    unknown = [cpu for cpu, facts in told.items() if not facts.tells_core]
    blocks = read_cpuinfo(files) if unknown else {}
    # An offline cpu has no topology, and no block; one that is listed as online runs all the same.
    gone = {cpu for cpu in unknown if cpu not in listed and cpu not in blocks}
    running = {cpu: facts for cpu, facts in told.items() if cpu not in gone}
    groups = _groups({cpu: facts.siblings for cpu, facts in running.items()})
    ungrouped = {cpu for cpu in unknown if cpu in running and cpu not in groups}
    for cpu in ungrouped & blocks.keys():
        running[cpu] = _by_cpuinfo(files, blocks[cpu], running[cpu])
    packages, notes = _packages(files, running, groups)
    around = _fullest(running, packages, groups)
    places = {
        cpu: ThreadPlace(packages[cpu], *_core(cpu, running, groups.get(cpu), around.get(cpu)))
        for cpu in running
    }
    unlisted = bool(listed) and not places.keys() <= listed
    beside = ", some of whose cpus are not listed as online" if unlisted else ""
    notes = [*_missing(running, groups, ungrouped), *notes]
    return Cpus(places, (), f"cores: /{CPUS}{beside}", notes)


def _groups(sets: Mapping[int, frozenset[int] | None]) -> dict[int, frozenset[int]]:
    """The set of each cpu that has one or is named in another's; sets that overlap are one."""
    groups: dict[int, frozenset[int]] = {}
    for cpu, cpus in sets.items():
        group = _own(cpu, cpus, sets)
        if group is not None and groups.get(cpu) != group:
            whole = group.union(*{groups[member] for member in group & groups.keys()})
            groups |= dict.fromkeys(whole, whole)
    return groups


def _own(cpu: int, cpus: frozenset[int] | None, running: Collection[int]) -> frozenset[int] | None:
    """Those of its set that run, and itself; None if it has no set."""
    return cpus.intersection(running) | {cpu} if cpus else None


def _fullest(
    running: Mapping[int, _Told],
    packages: Mapping[int, int],
    groups: Collection[int],
) -> dict[int, tuple[str | None, ...]]:
    """What is around each cpu without siblings: as the others of its core tell, if it does not."""
    alone = {cpu: it for cpu, it in running.items() if cpu not in groups and it.core is not None}
    told = defaultdict[tuple[int, int | None], set[tuple[str | None, ...]]](set)
    for cpu, it in alone.items():
        told[packages[cpu], it.core].add(it.around)
    found = {}
    for cpu, it in alone.items():
        fuller = [other for other in told[packages[cpu], it.core] if _completes(it.around, other)]
        # Several are several cores, and it may be of any.
        found[cpu] = fuller[0] if len(fuller) == 1 else it.around
    return found


def _completes(around: tuple[str | None, ...], other: tuple[str | None, ...]) -> bool:
    pairs = zip(around, other, strict=True)
    return other != around and all(own in (None, others) for own, others in pairs)


def _core(
    cpu: int,
    running: Mapping[int, _Told],
    group: frozenset[int] | None,
    around: tuple[str | None, ...] | None,
) -> tuple[int, str]:
    """The number of its core, and what else is equal only for the threads of that core."""
    facts = running[cpu]
    if group is None:
        return (cpu, f"cpu {cpu} alone") if facts.core is None else (facts.core, f"{around}")
    known = [core for it in sorted(group) if (core := running[it].core) is not None]
    number = facts.core if facts.core is not None else next(iter(known), min(group))
    return number, format_cpulist(group)


def _by_cpuinfo(files: MachineFiles, block: Mapping[str, str], facts: _Told) -> _Told:
    place = _cpuinfo_place(files, -1, block)
    if place.core < 0:
        return facts
    package = place.package if facts.package is None else facts.package
    return replace(facts, core=place.core, package=package)


def _cpuinfo_place(files: MachineFiles, cpu: int, block: Mapping[str, str]) -> ThreadPlace:
    where = files.where(CPUINFO)
    package = to_int(block.get("physical id", "0"), where)
    return ThreadPlace(max(package, 0), to_int(block.get("core id", str(cpu)), where))


def _packages(
    files: MachineFiles, running: Mapping[int, _Told], cores: Mapping[int, frozenset[int]]
) -> tuple[dict[int, int], list[str]]:
    """The package of each cpu: as numbered, or as a set of cpus where the number is not known."""
    found = {cpu: it.package for cpu, it in running.items() if it.package is not None}
    nameless = [cpu for cpu in running if cpu not in found]
    sets = {cpu: _set(files, f"{CPUS}/cpu{cpu}/topology", _PACKAGE_SETS) for cpu in nameless}
    groups = _groups({**dict.fromkeys(running), **sets})
    for cpu in nameless:
        known = next((found[it] for it in _together(cpu, groups, cores) if it in found), None)
        if known is not None:
            found[cpu] = known
        elif cpu in groups:
            found[cpu] = next(free for free in count() if free not in found.values())
    lost = [cpu for cpu in nameless if cpu not in found]
    blocks = read_cpuinfo(files) if lost else {}
    found |= {cpu: _cpuinfo_place(files, cpu, blocks.get(cpu, {})).package for cpu in lost}
    untold = [cpu for cpu in lost if "physical id" not in blocks.get(cpu, {})]
    return found, [*_nameless([cpu for cpu in nameless if cpu in groups], untold)]


def _together(cpu: int, *groups: Mapping[int, frozenset[int]]) -> list[int]:
    """The cpus that are in one of these sets with it."""
    return [member for group in groups for member in sorted(group.get(cpu, ()))]


def _nameless(apart: Collection[int], lost: Collection[int]) -> Iterator[str]:
    if apart:
        yield (
            f"the kernel gives no number to the packages of cpus {format_cpulist(apart)}: they "
            "are counted in the order of their cpus"
        )
    if lost:
        yield f"nothing tells the package of cpus {format_cpulist(lost)}: it counts as the first"


def _missing(
    running: Mapping[int, _Told], groups: Mapping[int, frozenset[int]], ungrouped: Collection[int]
) -> Iterator[str]:
    """Which of the usual files were not there, and what was done without them."""
    torn = [
        cpu
        for cpu, it in running.items()
        if it.siblings and _own(cpu, it.siblings, running.keys()) != groups[cpu]
    ]
    if torn:
        yield (
            f"the siblings of cpus {format_cpulist(torn)} are not those that others tell: sets "
            "that overlap count as one core, but for other core_ids"
        )
    nameless = [cpu for cpu, it in running.items() if it.core is None and cpu in groups]
    if nameless:
        yield f"no core_id of cpus {format_cpulist(nameless)}: their cores are known by siblings"
    if by_cpuinfo := [cpu for cpu in ungrouped if running[cpu].core is not None]:
        listed = format_cpulist(by_cpuinfo)
        yield f"/{CPUS} does not tell the core of cpus {listed}: taken from /{CPUINFO}"
    if alone := [cpu for cpu in ungrouped if running[cpu].core is None]:
        yield f"nothing tells the core of cpus {format_cpulist(alone)}: each counts as one"


def _without_topology(
    files: MachineFiles, folders: frozenset[int], listed: frozenset[int], off: frozenset[int]
) -> Cpus:
    blocks = read_cpuinfo(files)
    # An offline cpu has a folder, too, and no block.
    running = sorted((listed | blocks.keys() or folders) - off)
    if not running:
        raise TopologyError(
            f"cannot tell the cpus of this machine: neither {files.where(CPUS)}/cpu*/topology nor "
            f"{files.where(CPUINFO)} tells of one that runs; mount one, or capture it too"
        )
    alone = [cpu for cpu in running if cpu not in blocks]
    places = {
        cpu: _cpuinfo_place(files, cpu, blocks[cpu])
        if cpu in blocks
        else ThreadPlace(0, cpu, f"cpu {cpu} alone")
        for cpu in running
    }
    cores = f"cores: /{CPUINFO}, as /{CPUS} does not tell them"
    notes = [f"nothing tells the cores of cpus {format_cpulist(alone)}: each cpu counts as one"]
    return Cpus(places, (), cores if blocks else f"cpus: /{CPUS}", notes if alone else [])
