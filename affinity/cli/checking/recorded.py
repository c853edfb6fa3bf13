"""Checks machines that were recorded elsewhere: readable, and the same facts as hwloc reads.

python -m affinity check --machine machine.tgz       one machine, in findings
python -m affinity check --machines folder           all machines below a folder, one line each
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from affinity.cli.checking.finding import Finding
from affinity.cli.checking.placements import broken_placements
from affinity.cli.phrases import machine_name, memory_names
from affinity.cpulist import parse_cpulist
from affinity.errors import NoMachine, TopologyError
from affinity.machine.captor import NOT_ALLOWED
from affinity.machine.cross_check import Difference, compare
from affinity.machine.memory_kind import HbmWord
from affinity.machine.read import read_machine, read_opinions
from affinity.placement.wording import counted
from affinity.topology import Topology

_CAPTURES = r"\.(?:tar(?:\.\w+)?|t[gbx]z2?)"
_OTHERS = r"(?:\.v\d(?:tov\d)?)?(?:\.(?:xml|output|console|lstopo|txt))+"
_NAMED = re.compile(rf"(?P<stem>.+?)(?:(?P<capture>{_CAPTURES})|{_OTHERS})", re.IGNORECASE)
"""File names of machines: the machine's name, and whether it is a capture of files."""

_SUBJECT = "second opinion"


@dataclass(frozen=True, slots=True)
class MachineCheck:
    """The result for one recorded machine: `verdict` is "ok", "none" (no machine) or "FAIL"."""

    name: str
    verdict: str
    words: tuple[str, ...]


def recorded_findings(path: Path, hbm: Sequence[HbmWord] = ()) -> Iterator[Finding]:
    """The checks that apply to a recorded machine; the others are about the present one."""
    topology = read_machine(path, hbm)
    cores = counted(len(topology.cores), "core")
    yield Finding("ok", "machine", f"{machine_name(topology)}, {cores}")
    names = ", ".join(memory_names(topology, [node.id for node in topology.numa_nodes]))
    modes = topology.modes
    setup = f"; set up as {modes.cluster}, {modes.memory}" if modes else ""
    yield Finding("ok", "memories", f"{names}{setup}")
    for note in topology.notes:
        yield Finding("warn", "machine", note)
    yield from _opinions(path, topology)
    made, wrong = broken_placements(topology)
    yield from (Finding("fail", "placements", fault) for fault in wrong)
    if not wrong:
        yield Finding("ok", "placements", f"{made} plans tried, nothing cut or given twice")


def sweep(folder: Path) -> Iterator[MachineCheck]:
    """Check every machine below `folder`, by name: read it, compare it, plan on it.

    It is compared with other records of the same machine. Raises TopologyError if there is no file
    or folder that could be a machine.
    """
    found = [folder] if _is_root(folder) else _machines(folder)
    if not found:
        raise TopologyError(
            f"{folder} holds no recorded machines: expected archives with sys and proc, such "
            "folders, hwloc's XML (.xml), or text of lstopo or numactl -H (.txt, .output)"
        )
    for path in found:
        yield _look_at(path, path.name if path == folder else path.relative_to(folder).as_posix())


def _look_at(path: Path, name: str) -> MachineCheck:
    try:
        topology = read_machine(path)
    except NoMachine as error:
        return MachineCheck(name, "none", (_reason(path, error),))
    except TopologyError as error:
        return MachineCheck(name, "FAIL", (_reason(path, error),))
    size = f"{counted(len(topology.cores), 'core')}, {counted(len(topology.numa_nodes), 'node')}"
    opinions = list(_opinions(path, topology))
    made, wrong = broken_placements(topology)
    placed = "; ".join(wrong) or f"{counted(made, 'plan')} legal"
    failed = wrong or any(finding.level == "fail" for finding in opinions)
    agreed = "; ".join(finding.text for finding in opinions) or "nothing beside it"
    return MachineCheck(name, "FAIL" if failed else "ok", (size, agreed, placed))


def _reason(path: Path, error: TopologyError) -> str:
    return str(error).removeprefix(f"{path}").lstrip(", ")


def _opinions(path: Path, topology: Topology) -> Iterator[Finding]:
    """Differences to other records of the machine: files beside its own, or inside its capture."""
    for other in _beside(path):
        try:
            yield from _held_against(topology, other.name, read_machine(other))
        except NoMachine:
            continue
        except TopologyError as error:
            yield Finding("fail", _SUBJECT, f"{other.name}: {_reason(other, error)}")
    try:
        for name, theirs in read_opinions(path):
            yield from _held_against(topology, name, theirs)
    except TopologyError as error:
        yield Finding("fail", _SUBJECT, str(error))


def _held_against(topology: Topology, name: str, theirs: Topology) -> Iterator[Finding]:
    if not re.search(r"the (XML of hwloc|text of lstopo)", theirs.sources[0]):
        return  # Others, as numactl, tell no cores.
    differences = [it for it in compare(topology, theirs) if not _left_out(topology, it)]
    for it in differences:
        yield Finding("fail", _SUBJECT, f"{name}: {it.fact}: {it.ours} here, {it.theirs} there")
    if not differences:
        yield Finding("ok", _SUBJECT, f"agrees with {name}")


def _left_out(topology: Topology, difference: Difference) -> bool:
    """Whether hwloc left out what the captor was not allowed to use, as it does by default."""
    if difference.fact not in ("cpus", "NUMA nodes"):
        return False
    ours, theirs = (
        parse_cpulist("" if it == "none" else it) for it in (difference.ours, difference.theirs)
    )
    return set(theirs) < set(ours) and any(NOT_ALLOWED in note for note in topology.notes)


def _machines(folder: Path) -> list[Path]:
    """The files and folders below `folder`, one for each machine: the fullest of equal name."""
    inside = _listed(folder)
    groups: defaultdict[str, list[Path]] = defaultdict(list)
    found: list[Path] = []
    for path in inside:
        if path.is_dir() and not path.is_symlink():
            found += [path] if _is_root(path) else _machines(path)
        elif named := _NAMED.fullmatch(path.name):
            groups[named["stem"]].append(path)
    found += [sorted(paths, key=_fullness)[0] for paths in groups.values()]
    return sorted(found)


def _is_root(path: Path) -> bool:
    return any((path / tree).is_dir() for tree in ("sys", "proc"))


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise TopologyError(f"cannot read {folder}: {error.strerror}") from None


def _fullness(path: Path) -> tuple[bool, bool, str]:
    """A capture before XML, and XML before text."""
    named = _NAMED.fullmatch(path.name)
    return not (named and named["capture"]), not path.name.endswith(".xml"), path.name


def _beside(path: Path) -> list[Path]:
    """Files of the same name in the same folder."""
    named = _NAMED.fullmatch(path.name)
    if named is None or path.is_dir():
        return []
    others = ((it, _NAMED.fullmatch(it.name)) for it in _listed(path.parent) if it != path)
    return [it for it, other in others if other and other["stem"] == named["stem"]]
