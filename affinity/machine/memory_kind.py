"""Tells high-bandwidth memory from DRAM and the rest, and only where there is evidence of it.

What the user says comes first. Other evidence depends on whether the memory has cpus of its own:
see `memory_beside_cpus` and `memory_without_cpus`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from affinity import terms
from affinity.cpulist import format_cpulist
from affinity.machine.description import Description, Kind, NodeFacts
from affinity.machine.locality import Locality
from affinity.machine.memory_beside_cpus import kind_beside_cpus
from affinity.machine.memory_without_cpus import kind_without_cpus
from affinity.machine.processors import Identity
from affinity.machine.user_override import HbmWord


def memory_kinds(
    description: Description,
    identity: Identity,
    near: Mapping[int, Locality],
    words: Iterable[HbmWord],
) -> dict[int, Kind]:
    """The kind of each node's memory; `near` has the owners, `words` the HBM named by the user.

    The user names all HBM there is: no other memory is then taken for it.
    """
    said = {word.node: word for word in words}
    away = {
        node: _decide(kind_without_cpus(description, identity, facts, near[node]), facts, said)
        for node, facts in description.nodes.items()
        if not facts.cpus
    }
    has_hbm = any(kind.kind == "hbm" for kind in away.values())
    own = {
        node: _decide(kind_beside_cpus(description, identity, facts, has_hbm), facts, said)
        for node, facts in description.nodes.items()
        if facts.cpus
    }
    return dict(sorted({**own, **away}.items()))


def may_be_hbm(kinds: Mapping[int, Kind], description: Description) -> str:
    """The nodes without cpus of unknown kind, as a list such as ``"2-3"``."""
    return format_cpulist(
        facts.id
        for facts in description.nodes.values()
        if kinds[facts.id].kind == "unknown" and not kinds[facts.id].not_hbm
        if facts.holds_memory and not facts.cpus
    )


def unknown_hbm(kinds: Mapping[int, Kind], description: Description) -> str | None:
    """The remedy for memories without cpus of unknown kind; None if there are none."""
    nodes = may_be_hbm(kinds, description)
    if not nodes:
        return None
    return (
        f"nothing tells what kind of memory is at NUMA node {nodes}, so it is not used as HBM: if "
        f"it is, say {terms.hbm(nodes)} or AFFINITY_HBM_NODES={nodes}"
    )


def _decide(found: Kind, facts: NodeFacts, said: Mapping[int, HbmWord]) -> Kind:
    """What was found, unless the user says otherwise."""
    if word := said.get(facts.id):
        return Kind("hbm", f"the user says so: {word.by}")
    if said and found.kind == "hbm":
        by = next(iter(said.values())).by
        nodes = format_cpulist(said)
        return Kind("unknown", f"not HBM, as {by} names only {nodes}; else {found.evidence}")
    return found
