"""Compares two topologies of one machine: mostly this package's and hwloc's.

    if (theirs := lstopo_topology()) is not None:
        for difference in compare(read_topology(), theirs):
            print(f"{difference.fact}: {difference.ours}, but {difference.theirs}")

Only facts that both sources tell are compared.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from affinity.cpulist import format_cpulist
from affinity.errors import TopologyError
from affinity.machine.hwloc_xml import NO_CORES, describe_hwloc_xml
from affinity.machine.inference import conclude
from affinity.numbers import format_bytes
from affinity.topology import NumaNode, Topology

SAME_SIZE = 0.01
"""Sizes that differ by at most this share are equal: kernels differ in counting reserved memory."""

SHOWN_GROUPS = 3
"""How many groups of cpus a difference names before it breaks off."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A fact on which two sources differ, and the value of each, as text."""

    fact: str
    ours: str
    theirs: str


def compare(topology: Topology, other: Topology) -> tuple[Difference, ...]:
    """The differences between `topology` and `other`: cpus, cores, packages, caches, memories.

    Groups of cpus are compared on the cpus that both know.
    """
    both = frozenset(topology.cpus) & frozenset(other.cpus)
    return (
        *_differ("cpus", format_cpulist(topology.cpus), format_cpulist(other.cpus)),
        *_cores_differ(topology, other, both),
        *_groups_differ("packages", _packages(topology, both), _packages(other, both)),
        *_caches_differ(topology, other, both, level=2),
        *_caches_differ(topology, other, both, level=3),
        *_nodes_differ(topology, other, both),
    )


def lstopo_topology(timeout_seconds: float = 20.0) -> Topology | None:
    """The topology of this machine by hwloc's lstopo, None if it is not installed.

    The version of hwloc is in `Topology.sources`. Variables that change hwloc's view
    (``HWLOC_...``) are removed. Raises TopologyError if it fails or takes too long.
    """
    found = (shutil.which(name) for name in ("lstopo-no-graphics", "lstopo"))
    program = next((path for path in found if path), None)
    if program is None:
        return None
    # Without --disallowed it leaves out what is forbidden to this process only.
    command = [program, "--of", "xml", "--no-io", "--disallowed"]
    text = _output(command, timeout_seconds)
    return conclude(describe_hwloc_xml(text, Path(program).name))


def _output(command: list[str], timeout_seconds: float) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HWLOC_")}
    way_out = "hwloc 2.0 or newer is needed; without it there is no second opinion"
    try:
        run = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_seconds,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TopologyError(
            f"{' '.join(command)} did not end within {timeout_seconds:g} s; {way_out}"
        ) from None
    except OSError as error:
        raise TopologyError(f"cannot run {command[0]}: {error.strerror}; {way_out}") from None
    if run.returncode:
        said = (run.stderr.strip() or run.stdout.strip()).partition("\n")[0]
        raise TopologyError(
            f"{' '.join(command)} failed with exit status {run.returncode}: {said}; {way_out}"
        )
    return run.stdout


def _differ(fact: str, ours: str, theirs: str) -> Iterator[Difference]:
    if ours != theirs:
        yield Difference(fact, ours or "none", theirs or "none")


def _cores_differ(
    topology: Topology, other: Topology, both: frozenset[int]
) -> Iterator[Difference]:
    if NO_CORES not in (*topology.notes, *other.notes):
        yield from _groups_differ("cores", _cores(topology, both), _cores(other, both))


def _cores(topology: Topology, both: frozenset[int]) -> set[frozenset[int]]:
    return _narrowed((core.cpus for core in topology.cores), both)


def _packages(topology: Topology, both: frozenset[int]) -> set[frozenset[int]]:
    members: defaultdict[int, list[int]] = defaultdict(list)
    for core in topology.cores:
        members[core.package].extend(core.cpus)
    return _narrowed(members.values(), both)


def _caches(topology: Topology, both: frozenset[int], level: int) -> set[frozenset[int]]:
    caches = (cache for cache in topology.caches if cache.level == level)
    return _narrowed((cache.cpus for cache in caches if cache.kind != "instruction"), both)


def _narrowed(groups: Iterable[Iterable[int]], both: frozenset[int]) -> set[frozenset[int]]:
    return {group for cpus in groups if (group := both.intersection(cpus))}


def _caches_differ(
    topology: Topology, other: Topology, both: frozenset[int], level: int
) -> Iterator[Difference]:
    ours, theirs = _caches(topology, both, level), _caches(other, both, level)
    if ours and theirs:
        yield from _groups_differ(f"cpus that share an L{level}", ours, theirs)
    elif theirs:
        # Cores without a known cache count as sharing none, which is wrong if they do.
        shared = {
            group for group in theirs if not any(group <= core for core in _cores(topology, both))
        }
        if shared:
            yield Difference(f"cpus that share an L{level}", "not told", _listed(shared))


def _groups_differ(
    fact: str, ours: set[frozenset[int]], theirs: set[frozenset[int]]
) -> Iterator[Difference]:
    if ours != theirs:
        yield Difference(
            fact,
            f"{len(ours)}, of them only here {_listed(ours - theirs)}",
            f"{len(theirs)}, of them only here {_listed(theirs - ours)}",
        )


def _listed(groups: set[frozenset[int]]) -> str:
    lists = [format_cpulist(group) for group in sorted(groups, key=min)]
    more = " | ..." if len(lists) > SHOWN_GROUPS else ""
    return " | ".join(lists[:SHOWN_GROUPS]) + more if lists else "none"


def _nodes_differ(
    topology: Topology, other: Topology, both: frozenset[int]
) -> Iterator[Difference]:
    ours, theirs = _nodes(topology), _nodes(other)
    # hwloc leaves out the memory of NVIDIA's GPUs, in use or not, and nodes with others' cpus.
    counted = (
        [
            node.id
            for node in nodes.values()
            if node.id in ours.keys() & theirs or not (node.kind == "gpu" or _has_others_cpus(node))
        ]
        for nodes in (ours, theirs)
    )
    yield from _differ("NUMA nodes", *map(format_cpulist, counted))
    for number in sorted(ours.keys() & theirs.keys()):
        sides = (topology, ours[number]), (other, theirs[number])
        own, near = ([both & of(*side) for side in sides] for of in (_own_cpus, _near_cpus))
        if any(own):
            # hwloc does not tell memory without cpus from memory with the cpus that are near to it.
            placed = (format_cpulist(o or n) for o, n in zip(own, near, strict=True))
            yield from _differ(f"cpus of NUMA node {number}", *placed)
        elif (
            all(near)
            and ours[number].near != theirs[number].near
            and all(_is_told(*side) for side in sides)
        ):
            yield from _differ(f"cpus near to NUMA node {number}", *map(format_cpulist, near))
        yield from _node_differs(ours[number], theirs[number])


def _has_others_cpus(node: NumaNode) -> bool:
    return bool(node.cpus) and node.near != (node.id,)


def _nodes(topology: Topology) -> Mapping[int, NumaNode]:
    """The nodes with memory or cpus."""
    return {node.id: node for node in topology.numa_nodes if node.cpus or node.memory_bytes}


def _own_cpus(topology: Topology, node: NumaNode) -> set[int]:
    """The cpus of a node: of those that others list too, the ones that are at home in it."""
    others = {cpu for other in topology.numa_nodes if other.id != node.id for cpu in other.cpus}
    if others.isdisjoint(node.cpus):
        return set(node.cpus)
    return {cpu for core in topology.cores if core.numa_node == node.id for cpu in core.cpus}


def _near_cpus(topology: Topology, node: NumaNode) -> set[int]:
    return {cpu for near in node.near for cpu in _own_cpus(topology, topology.node(near))}


def _node_differs(ours: NumaNode, theirs: NumaNode) -> Iterator[Difference]:
    name = f"NUMA node {ours.id}"
    yield from _sizes_differ(f"memory of {name}", ours.memory_bytes, theirs.memory_bytes)
    if "unknown" not in (ours.kind, theirs.kind) and ours.kind != theirs.kind:
        yield Difference(
            f"kind of memory of {name}",
            f"{ours.kind} ({ours.evidence})",
            f"{theirs.kind} ({theirs.evidence})",
        )
    if not any(cache.assumed for cache in (*ours.side_caches, *theirs.side_caches)):
        yield from _sizes_differ(
            f"memory-side cache of {name}",
            sum(cache.size_bytes for cache in ours.side_caches),
            sum(cache.size_bytes for cache in theirs.side_caches),
        )


def _sizes_differ(fact: str, ours: int, theirs: int) -> Iterator[Difference]:
    if ours and theirs and abs(ours - theirs) > SAME_SIZE * max(ours, theirs):
        yield Difference(fact, format_bytes(ours, digits=2), format_bytes(theirs, digits=2))


def _is_told(topology: Topology, node: NumaNode) -> bool:
    """Whether it is told whose it is; near to all nodes is all memory where nothing tells."""
    owners = sum(1 for other in topology.numa_nodes if other.cpus)
    return bool(node.near) and (len(node.near) < owners or owners == 1)
