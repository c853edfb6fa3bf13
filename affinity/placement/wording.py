"""Formats numbers, nodes and permissions for the reasons and errors of a placement."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from affinity.cpulist import format_cpulist

if TYPE_CHECKING:
    from affinity.process.allowed import AllowedResources
    from affinity.topology import MemoryKind, Topology

_KINDS: dict[MemoryKind, str] = {
    "dram": "DRAM",
    "hbm": "HBM",
    "cxl": "CXL",
    "pmem": "persistent memory",
    "gpu": "GPU memory",
    "unknown": "unknown memory",
}


def counted(number: int, noun: str) -> str:
    """Write ``"1 core"``, ``"4 cores"``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def listed(parts: Iterable[str]) -> str:
    """Write ``"a, b and c"``."""
    *others, last = parts
    return f"{', '.join(others)} and {last}" if others else last


def numbered(noun: str, numbers: Iterable[int]) -> str:
    """Write ``"worker 3"``, ``"NUMA nodes 0-1"``, ``"no node"``."""
    ids = tuple(numbers)
    if not ids:
        return f"no {noun}"
    return f"{noun}{'' if len(ids) == 1 else 's'} {format_cpulist(ids)}"


def named(topology: Topology, nodes: Iterable[int]) -> str:
    """Write memory nodes with their kinds: ``"HBM node 2"``, ``"HBM nodes 2-3 and DRAM node 0"``.

    The HBM of a Xeon Phi is called MCDRAM there.
    """
    by_kind: dict[str, list[int]] = {}
    for node in nodes:
        kind = topology.node(node).kind
        word = "MCDRAM" if kind == "hbm" and "Xeon Phi" in topology.model else _KINDS[kind]
        by_kind.setdefault(word, []).append(node)
    return listed(numbered(f"{word} node", ids) for word, ids in by_kind.items())


def by_whom(allowed: AllowedResources) -> str:
    """Write who restricts the process, in brackets, with a blank before; nothing if nobody does."""
    return f" ({'; '.join(allowed.said_by)})" if allowed.said_by else ""
