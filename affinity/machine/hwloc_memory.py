"""The memories in hwloc's XML: their kinds, and the cpus they belong to.

Since 2.0 hwloc gives memory without cpus the cpus that it is near to, so MCDRAM and the DRAM beside
it have the same set. Other facts must decide which of them owns the cpus.

hwloc's MemoryTier is ignored: it only says that bandwidths differ by more than a tenth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from affinity.machine.description import Description, NodeFacts, ToldKind
from affinity.machine.hwloc_figures import Performance, read_distances, read_performance
from affinity.machine.hwloc_objects import HwlocObject, all_members
from affinity.machine.processors import identify
from affinity.machine.xml_tree import XmlElement, whole_number
from affinity.numbers import format_bytes
from affinity.topology import MemoryKind, SideCache

_KINDS: dict[str, MemoryKind] = {
    "DRAM": "dram",
    "HBM": "hbm",
    "MCDRAM": "hbm",
    "NVM": "pmem",
    "GPUMemory": "gpu",
    "CXL-DRAM": "cxl",
    "CXL-HBM": "cxl",
    "CXL-SPM": "cxl",
    "CXL-NVM": "pmem",
    "CXL-GPUMemory": "gpu",
}
"""hwloc's subtypes of NUMA nodes. SPM, soft-reserved by the firmware, may be HBM or not."""

_DAX = {"NVM": "pmem", "SPM": "soft-reserved"}


def describe_memory(
    topology: XmlElement, objects: Sequence[HwlocObject], description: Description
) -> None:
    """Add nodes and distances to `description`, and notes on what had to be concluded."""
    memories = [item for item in objects if item.type == "NUMANode"]
    if not memories:
        memories = [objects[0]]
        description.notes.append("hwloc knows of no NUMA nodes here: all memory counts as one")
    performance = read_performance(topology, objects)
    built_in = description.knights is not None
    pairs: list[tuple[HwlocObject, NodeFacts]] = []
    for memory in sorted(memories, key=lambda memory: memory.os_index or 0):
        facts = _facts(memory, performance.get(memory), built_in)
        if facts.id in description.nodes:
            raise memory.element.error(f"os_index {facts.id}, which an earlier NUMA node has too")
        description.nodes[facts.id] = facts
        pairs.append((memory, facts))
    description.distances = read_distances(topology, objects)
    description.notes += _share_cpus(pairs, description.distances)
    _add_offline_cpus(pairs, set(objects[0].cpus))
    _add_initiators(pairs)
    is_knights = identify(description).family == "knights"
    for cache in (item for item in objects if item.is_side_cache):
        _add_side_cache(cache, pairs, is_knights)
    description.notes += _devices_apart(objects)


def _facts(memory: HwlocObject, performance: Performance | None, built_in: bool) -> NodeFacts:
    size = memory.element.number("local_memory") or 0
    behind = _DAX.get(memory.info("DAXType"))
    kind = _KINDS.get(memory.subtype)
    facts = NodeFacts(
        id=memory.os_index or 0,
        memory_bytes=size,
        free_bytes=size,
        size_told=_tells_size(memory.element),
        dax="cxl" if memory.info("CXLDevice") and behind != "pmem" else behind,
        told=ToldKind(kind, f"hwloc's subtype {memory.subtype}") if kind else None,
    )
    if performance is not None:
        facts.read_bandwidth = performance.read_bandwidth
        facts.write_bandwidth = performance.write_bandwidth
        facts.read_latency = performance.read_latency
        facts.zero_performance = performance.zero
        # There is no HMAT on a Xeon Phi: hwloc puts in 90 and 360 GB/s, shared by the clusters.
        figures = "built-in table for Xeon Phi" if built_in else "table of memory attributes"
        facts.performance_source = f"hwloc's {figures}"
    return facts


def _tells_size(memory: XmlElement) -> bool:
    """hwloc's 0 is what it does not know either, but for memory of which it counts the pages."""
    pages = (page.number("count") is not None for page in memory.tagged("page_type"))
    return bool(memory.number("local_memory")) or any(pages)


@dataclass(frozen=True, slots=True, order=True)
class _Rank:
    """How unlikely it is that a memory has the cpus it is near to: the least has them.

    Memory without cpus is near to all cpus of one node or more, never to a part of them. And
    firmware keeps it further away than the DRAM beside it, so that nobody gets it unasked.
    """

    near_cpus: int
    not_called_dram: bool
    called_else: bool
    distance_to_all: int
    latency: int
    called_hbm: bool

    @staticmethod
    def of(
        memory: HwlocObject, facts: NodeFacts, distances: Mapping[tuple[int, int], int]
    ) -> _Rank:
        kind = facts.told.kind if facts.told else facts.dax
        return _Rank(
            near_cpus=len(memory.cpus),
            not_called_dram=kind != "dram",
            called_else=kind not in ("dram", "hbm", None),
            distance_to_all=sum(d for (origin, _), d in distances.items() if origin == facts.id),
            latency=facts.read_latency or 0,
            called_hbm=kind == "hbm",
        )


def _share_cpus(
    pairs: Sequence[tuple[HwlocObject, NodeFacts]], distances: Mapping[tuple[int, int], int]
) -> Iterator[str]:
    """Give every cpu to one node, as Linux does; say so where nothing tells to which."""
    ranks = {facts.id: _Rank.of(memory, facts, distances) for memory, facts in pairs}
    taken: set[int] = set()
    for memory, facts in sorted(pairs, key=lambda pair: (ranks[pair[1].id], pair[1].id)):
        own = tuple(cpu for cpu in memory.cpus if cpu not in taken)
        # Who has cpus that no other node has, has those that they share as well.
        facts.cpus = memory.cpus if own else ()
        taken.update(own)
        alike = [
            str(other.id)
            for candidate, other in pairs
            if other is not facts
            and candidate.cpus == memory.cpus
            and ranks[other.id] == ranks[facts.id]
        ]
        if own and alike:
            yield (
                f"hwloc does not tell whether the cpus belong to node {facts.id} or to "
                f"{', '.join(alike)}, which are near to the same ones: taken for {facts.id}'s"
            )


def _add_offline_cpus(pairs: Sequence[tuple[HwlocObject, NodeFacts]], present: set[int]) -> None:
    for memory, facts in pairs:
        if facts.cpus or not memory.near_cpus:
            complete = all_members(memory.element, "complete_cpuset")
            facts.offline_cpus = tuple(cpu for cpu in complete if cpu not in present)


def _add_initiators(pairs: Sequence[tuple[HwlocObject, NodeFacts]]) -> None:
    """hwloc's near cpus as nodes, unless it names all nodes because it does not know."""
    owners = [facts for _, facts in pairs if facts.cpus]
    for memory, facts in pairs:
        near = tuple(sorted(o.id for o in owners if not set(o.cpus).isdisjoint(memory.near_cpus)))
        if near and not facts.cpus and (len(near) < len(owners) or len(owners) == 1):
            facts.initiators, facts.initiators_source = near, "hwloc's locality"


def _add_side_cache(
    cache: HwlocObject, pairs: Sequence[tuple[HwlocObject, NodeFacts]], is_knights: bool
) -> None:
    evidence = f"hwloc's {cache.element.get('type')} {cache.subtype}".rstrip()
    # Its topology-linux.c and its dump of SMBIOS take the same for granted.
    evidence += ", a part of the 16 GiB that hwloc assumes on any Xeon Phi" if is_knights else ""
    found = SideCache(
        size_bytes=cache.element.number("cache_size") or 0,
        line_bytes=cache.element.number("cache_linesize") or 0,
        associativity="direct" if cache.element.number("cache_associativity") == 1 else "unknown",
        evidence=evidence,
        assumed=is_knights,
    )
    for memory, facts in pairs:
        if cache.type == "MemCache":
            cached = cache in memory.ancestors()
        else:
            # The L3 that stands for MCDRAM as a cache may hold nodes of both kinds: DRAM is cached.
            cached = bool(facts.cpus) and set(facts.cpus) <= set(cache.cpus)
        if cached:
            facts.side_caches += (found,)


def _devices_apart(objects: Sequence[HwlocObject]) -> Iterator[str]:
    """Soft-reserved memory (HBM mostly) that the system was not told to use."""
    used = {item.info("DAXParent") for item in objects if item.type == "NUMANode"}
    for device in (item for item in objects if item.type == "OSDev"):
        if device.info("DAXType") == "SPM" and device.info("DAXParent") not in used:
            size = whole_number(device.info("Size").removesuffix("KiB"))
            amount = "some" if size is None else format_bytes(size * 1024)
            name = device.element.get("name")
            yield (
                f"{amount} of soft-reserved memory (HBM) is present but offline as {name}: "
                f"daxctl reconfigure-device --mode=system-ram {name}"
            )
