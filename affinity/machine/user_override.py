"""HBM nodes named by the user, trusted above all other evidence."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from affinity import terms
from affinity.cpulist import parse_cpulist
from affinity.errors import AffinityError, TopologyError

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
