"""The cluster and memory modes of a Xeon Phi, and the caches that follow from them.

Modes come from SMBIOS if it can be read, else from the NUMA nodes, as in hwloc (topology-linux.c,
2.x). From nodes, all-to-all, hemisphere and quadrant look the same, and the size of MCDRAM is
assumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from affinity.cpulist import format_cpulist
from affinity.machine.description import Description, Kind, KnightsFirmware
from affinity.machine.processors import KNIGHTS_MCDRAM_BYTES
from affinity.numbers import format_bytes
from affinity.topology import Modes, SideCache

_CLUSTERS = {
    "All2All": "all-to-all",
    "Hemisphere": "hemisphere",
    "Quadrant": "quadrant",
    "SNC2": "SNC-2",
    "SNC4": "SNC-4",
}
_MEMORIES = {
    "Cache": "cache",
    "Flat": "flat",
    "Hybrid25": "hybrid 25 %",
    "Hybrid50": "hybrid 50 %",
}
_CACHED = {"Cache": 1.0, "Hybrid25": 0.25, "Hybrid50": 0.5}
"""The part of MCDRAM that is a cache in these modes."""

_BY_NODES = {1: "all-to-all, hemisphere or quadrant", 2: "SNC-2", 4: "SNC-4"}
"""By the number of nodes with cpus."""

_HYBRIDS = {25: "hybrid 25 %", 50: "hybrid 50 %"}
"""By the part of MCDRAM that is a cache."""

_ALL = format_bytes(KNIGHTS_MCDRAM_BYTES)

_MAYBE_HYBRID = "hybrid cannot be ruled out"

_TOLERANCE = 0.03
"""Of all MCDRAM: the kernel keeps a little of each node, and some of it may be offline."""


@dataclass(frozen=True, slots=True)
class _Memory:
    """A memory mode; `cache_bytes` is the cache of each node with cpus, None if there is none.

    `assumed` if that follows from the MCDRAM that every Xeon Phi has.
    """

    mode: str
    evidence: str
    cache_bytes: int | None = None
    assumed: bool = False


def knights_modes(
    description: Description, kinds: Mapping[int, Kind]
) -> tuple[Modes, dict[int, tuple[SideCache, ...]]]:
    """The modes of a Xeon Phi, and the memory-side caches of its nodes."""
    cluster, cluster_evidence = _cluster(description)
    memory = _memory(description, kinds)
    caches = {node: facts.side_caches for node, facts in description.nodes.items()}
    if memory.cache_bytes and not any(caches.values()):
        cache = SideCache(memory.cache_bytes, 64, "direct", memory.evidence, memory.assumed)
        caches |= dict.fromkeys(_clusters(description), (cache,))
    return Modes(cluster, cluster_evidence, memory.mode, memory.evidence), caches


def _clusters(description: Description) -> list[int]:
    """The nodes that have cpus, or have cpus that are offline."""
    return [node for node, f in description.nodes.items() if f.cpus or f.offline_cpus]


def _cluster(description: Description) -> tuple[str, str]:
    told = description.knights
    count = len(_clusters(description))
    by_nodes = _BY_NODES.get(count, "unknown")
    if told is not None and told.cluster_mode in _CLUSTERS:
        mode = _CLUSTERS[told.cluster_mode]
        # SNC-4 with one node is what numa=off leaves; the firmware is right about the caches then.
        contradicted = "" if mode in by_nodes else f", although nodes with cpus: {count}"
        return mode, f"{told.source}{contradicted}"
    if not any(facts.memory_bytes for facts in description.nodes.values()):
        return "unknown", "the source tells nothing of memory, so that its nodes are no evidence"
    if count == 1:
        return by_nodes, "one node with cpus; only SMBIOS tells these modes apart"
    return by_nodes, f"{count} nodes with cpus" + ("" if count in _BY_NODES else ": no such mode")


def _memory(description: Description, kinds: Mapping[int, Kind]) -> _Memory:
    told = description.knights
    nodes = {node: f for node, f in description.nodes.items() if _is_hbm(kinds, node)}
    mcdram = sum(facts.memory_bytes for facts in nodes.values())
    if told is not None and told.memory_mode in _MEMORIES:
        contradicted = _contradiction(told.memory_mode, bool(nodes), mcdram)
        return _from_told_mode(told, told.memory_mode, contradicted, len(_clusters(description)))
    if unsized := [node for node, facts in nodes.items() if not facts.size_told]:
        which = format_cpulist(unsized)
        return _Memory("flat", f"the size of MCDRAM at node {which} is not told: {_MAYBE_HYBRID}")
    if told is not None and told.cache_bytes:
        return _from_cache_size(told, mcdram, len(_clusters(description)))
    if seen := [cache for facts in description.nodes.values() for cache in facts.side_caches]:
        mode, evidence = ("hybrid" if mcdram else "cache"), f"memory-side cache: {seen[0].evidence}"
        return _Memory(mode, evidence)
    if mcdram:
        return _from_nodes(mcdram, len(_clusters(description)))
    if not any(facts.memory_bytes for facts in description.nodes.values()):
        return _Memory("unknown", "the source tells nothing of memory")
    if any(not f.cpus and f.holds_memory for f in description.nodes.values()):
        return _Memory("unknown", "nothing tells whether the memory without cpus is MCDRAM")
    return _Memory(
        "cache",
        f"no memory is without cpus, so MCDRAM is a cache (or offline): {_ALL} in all, which is "
        "assumed from the processor",
        KNIGHTS_MCDRAM_BYTES // max(len(_clusters(description)), 1),
        assumed=True,
    )


def _from_told_mode(told: KnightsFirmware, mode: str, contradicted: str, clusters: int) -> _Memory:
    evidence = f"{told.source}{contradicted}"
    share = _CACHED.get(mode)
    if told.cache_bytes or not share:
        return _Memory(_MEMORIES[mode], evidence, told.cache_bytes or None)
    evidence += f"; {_ALL} of MCDRAM in all is assumed from the processor"
    cached = int(share * KNIGHTS_MCDRAM_BYTES) // max(clusters, 1)
    return _Memory(_MEMORIES[mode], evidence, cached, assumed=True)


def _contradiction(told_mode: str, any_nodes: bool, mcdram: int) -> str:
    if told_mode == "Cache":
        return f", although nodes of MCDRAM hold {format_bytes(mcdram)}" if any_nodes else ""
    return "" if any_nodes else ", although no node is of MCDRAM: it may be offline"


def _is_hbm(kinds: Mapping[int, Kind], node: int) -> bool:
    return kinds[node].kind == "hbm"


def _from_cache_size(told: KnightsFirmware, mcdram: int, clusters: int) -> _Memory:
    """An old dump names no modes, but the cache's size."""
    evidence = f"{told.source}: a cache of {format_bytes(told.cache_bytes)} for each node with cpus"
    if not mcdram:
        return _Memory("cache", evidence, told.cache_bytes)
    share = told.cache_bytes * clusters / (told.cache_bytes * clusters + mcdram)
    return _Memory(_hybrid(share) or "hybrid", evidence, told.cache_bytes)


def _from_nodes(mcdram: int, clusters: int) -> _Memory:
    """What is missing from all MCDRAM to the size of its nodes is a cache."""
    share = 1 - mcdram / KNIGHTS_MCDRAM_BYTES
    found = f"nodes of MCDRAM hold {format_bytes(mcdram)} of the {_ALL} of a Xeon Phi"
    if mode := _hybrid(share):
        cached = round(share * 4) * KNIGHTS_MCDRAM_BYTES // 4
        evidence = f"{found}: the rest is a cache"
        return _Memory(mode, evidence, cached // max(clusters, 1), assumed=True)
    if abs(share) <= _TOLERANCE:
        return _Memory("flat", found)
    return _Memory("flat", f"{found}: no mode leaves as much, so {_MAYBE_HYBRID}")


def _hybrid(share: float) -> str | None:
    near = (mode for part, mode in _HYBRIDS.items() if abs(share - part / 100) <= _TOLERANCE)
    return next(near, None)
