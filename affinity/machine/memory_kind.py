"""Tells high-bandwidth memory from DRAM and the rest, and only where there is evidence of it.

HBM nodes that the user names are trusted above all. Other evidence depends on whether the memory
has cpus of its own: see `memory_beside_cpus` and `memory_without_cpus`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from affinity import terms
from affinity.cpulist import format_cpulist, parse_cpulist
from affinity.errors import AffinityError, TopologyError
from affinity.machine.description import Description, Kind, NodeFacts
from affinity.machine.locality import Locality
from affinity.machine.memory_beside_cpus import kind_beside_cpus
from affinity.machine.memory_without_cpus import kind_without_cpus
from affinity.machine.processors import Identity

VARIABLES = ("AFFINITY_HBM_NODES", "MEMKIND_HBW_NODES")
"""Environment variables that name the HBM nodes: the first that is set counts."""


@dataclass(frozen=True, slots=True)
class HbmWord:
    """The user's statement that `node` is HBM, and of which node's cores (None: not said).

    `by` is its source, for the evidence.
    """

    node: int
    near: int | None = None
    by: str = "--hbm"


def parse_hbm(text: str, by: str | None = None) -> tuple[HbmWord, ...]:
    """Read ``"2-3"``, or ``"8@0,9@1"`` with the node whose cores each belongs to, by node id.

    `by` is its source, without one the option, as the program calls it (`options_named`).
    Raises TopologyError naming the part that cannot be read, or a node that is named twice.
    """
    by = terms.hbm() if by is None else by
    words: dict[int, HbmWord] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        nodes, at, near = part.partition("@")
        owner = _nodes(text, near, by) if at else ()
        if at and len(owner) != 1:
            raise _malformed(text, part, "expected one node with cpus after the @", by)
        for node in _nodes(text, nodes, by):
            if node in words:
                raise _malformed(text, part, f"node {node} is named twice", by)
            words[node] = HbmWord(node, owner[0] if owner else None, by)
    if not words:
        raise TopologyError(f"{by} is {text!r}, which names no NUMA node: write 2-3 or 8@0,9@1")
    return tuple(words[node] for node in sorted(words))


def hbm_from_environment(environment: Mapping[str, str] = os.environ) -> tuple[HbmWord, ...]:
    """The HBM nodes named by AFFINITY_HBM_NODES, else by memkind's variable; empty if by none.

    Raises TopologyError, naming the variable, if it cannot be read.
    """
    for name in VARIABLES:
        if text := environment.get(name, "").strip():
            return parse_hbm(text, name)
    return ()


def _nodes(text: str, part: str, by: str) -> tuple[int, ...]:
    try:
        return parse_cpulist(part)
    except AffinityError:
        raise _malformed(text, part, "expected a NUMA node or a range of them", by) from None


def _malformed(text: str, part: str, reason: str, by: str) -> TopologyError:
    return TopologyError(f"{by} is {text!r}, at {part!r}: {reason}; write 2-3 or 8@0,9@1")


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
