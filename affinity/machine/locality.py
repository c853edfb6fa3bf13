"""The owners of a memory: the nodes whose cores are nearest to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from affinity.cpulist import format_cpulist
from affinity.machine.description import Description


@dataclass(frozen=True, slots=True)
class Locality:
    """The nodes with cpus that a memory belongs to, and the evidence."""

    near: tuple[int, ...]
    evidence: str


def locality(description: Description, node: int) -> Locality:
    """The nodes with cpus nearest to `node`, which may be itself.

    Follows what the source names as the nearest cpus, then the firmware's distances from `node`,
    then gives up: all nodes with cpus are then equally near.
    """
    facts = description.nodes[node]
    if facts.cpus:
        return _beside(description, node)
    owners = nodes_with_cpus(description)
    if len(owners) < 2:
        return Locality(owners, "no other node has cpus" if owners else "no node has cpus")
    if named := tuple(owner for owner in owners if owner in facts.initiators):
        source = facts.initiators_source or "the source"
        return _closest(description, node, named, f"{source} names the cpus of {_nodes(named)}")
    return _closest(description, node, owners, "")


def nodes_with_cpus(description: Description) -> tuple[int, ...]:
    """Ids of the nodes that have cpus, ascending; of those that list the same, where these are."""
    return tuple(sorted(set(homes_of_cpus(description).values())))


def homes_of_cpus(description: Description) -> dict[int, int]:
    """The node of each cpu that any lists: the smallest of several, the first of equal ones.

    Linux lists a cpu in several nodes where ``numa=fake`` cuts its memory into pieces, or where
    the firmware's table does.
    """
    found: dict[int, int] = {}
    for facts in sorted(description.nodes.values(), key=lambda facts: (len(facts.cpus), facts.id)):
        for cpu in facts.cpus:
            found.setdefault(cpu, facts.id)
    return found


def shared_cpus(description: Description) -> tuple[int, ...]:
    """The cpus that several nodes list, ascending."""
    times = Counter(cpu for facts in description.nodes.values() for cpu in facts.cpus)
    return tuple(sorted(cpu for cpu, count in times.items() if count > 1))


def distances_from(
    description: Description, node: int, others: Iterable[int]
) -> dict[int, int] | None:
    """The firmware's distance from `node` to each of `others`; None unless it tells them all.

    They are those of the memory's own row. Seen from the cpus, a Xeon Phi's MCDRAM is further
    than all DRAM, so that the nearest memory of a node with cpus is never its own MCDRAM.
    """
    wanted = tuple(others)
    row = {other: description.distances.get((node, other)) for other in wanted}
    if None in row.values():
        row = {other: description.distances.get((other, node)) for other in wanted}
    known = {other: distance for other, distance in row.items() if distance is not None}
    return known if len(known) == len(wanted) else None


def _beside(description: Description, node: int) -> Locality:
    """The nodes where its cpus are at home: itself, unless others list them too."""
    homes = homes_of_cpus(description)
    near = tuple(sorted({homes[cpu] for cpu in description.nodes[node].cpus}))
    if near == (node,):
        return Locality(near, "it has cpus of its own")
    return Locality(near, f"its cpus are listed by {_nodes(near)} too")


def _closest(description: Description, node: int, owners: Sequence[int], named: str) -> Locality:
    """The closest of `owners` by distance; all of them where distances make no difference."""
    distances = distances_from(description, node, owners)
    if distances is None:
        unknown = "nothing tells which cpus are nearest, so it counts as near to all"
        return Locality(tuple(owners), named or unknown)
    least = min(distances.values())
    near = tuple(owner for owner in owners if distances[owner] == least)
    if len(near) < len(owners):
        closest = f"it is closest to {_nodes(near)} (distance {least})"
        return Locality(near, f"{named}, and {closest}" if named else closest)
    alike = f"it is as far from all nodes with cpus (distance {least}), so it counts as near to all"
    return Locality(near, named or alike)


def _nodes(ids: Sequence[int]) -> str:
    return f"node{'s' if len(ids) > 1 else ''} {format_cpulist(ids)}"
