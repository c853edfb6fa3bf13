"""NUMA nodes in sysfs: memory, distances, HMAT's figures, tiers, side caches."""

from __future__ import annotations

from affinity.cpulist import format_cpulist
from affinity.machine.description import Description, NodeFacts
from affinity.machine.files import (
    MachineFiles,
    numbers,
    read_cpus,
    read_int,
    read_list,
    read_meminfo,
    to_int,
)
from affinity.topology import HugePages, SideCache

NODES = "sys/devices/system/node"
TIERS = "sys/devices/virtual/memory_tiering"

_INDEXING = {0: "direct", 1: "indexed"}


def add_memory(files: MachineFiles, description: Description) -> None:
    """Add the NUMA nodes with all that is known of each, and the distances between them.

    Where the kernel shows no nodes, all memory counts as one. Raises TopologyError if a file holds
    what the kernel never writes, or a node does not tell its cpus.
    """
    ids = _nodes(files, description)
    if not ids:
        _add_whole_machine(files, description)
        return
    description.nodes = {node: _read_node(files, node, description) for node in ids}
    description.sources.append(f"memory: /{NODES}")
    if hidden := [node for node, facts in description.nodes.items() if not facts.size_told]:
        which = f"node{'s' if len(hidden) > 1 else ''} {format_cpulist(hidden)}"
        description.notes.append(
            f"no size of the memory of {which}: meminfo is missing or cannot be read"
        )
    for facts in description.nodes.values():
        _add_performance(files, facts, description)
    _add_distances(files, description)
    _add_tiers(files, description)


def _nodes(files: MachineFiles, description: Description) -> list[int]:
    """The nodes that are there: captures have folders of others, with nothing of use in them."""
    found = numbers(files, NODES, "node")
    online = read_list(files, f"{NODES}/online") or found
    empty = [
        node
        for node in found
        if node not in online and not files.names(f"{NODES}/node{node}", "cpu")
    ]
    if empty:
        description.notes.append(f"NUMA node {format_cpulist(empty)} is not online: left out")
    return [node for node in found if node not in empty]


def _add_whole_machine(files: MachineFiles, description: Description) -> None:
    whole = NodeFacts(0, tuple(description.threads))
    whole.huge_pages = _huge_pages(files, "sys/kernel/mm/hugepages")
    _add_amounts(files, "proc/meminfo", whole, description)
    description.nodes = {0: whole}
    description.sources.append(f"memory: /proc/meminfo, as /{NODES} is missing")
    description.notes.append("the kernel shows no NUMA nodes, so all memory counts as one")


def _read_node(files: MachineFiles, node: int, description: Description) -> NodeFacts:
    folder, offline = f"{NODES}/node{node}", set(description.offline_cpus)
    shown = set(read_cpus(files, folder))
    # The kernel keeps the links to cpus that are switched off, and takes them from the list.
    linked = set(numbers(files, folder, "cpu")) if offline else set()
    facts = NodeFacts(
        id=node,
        cpus=tuple(sorted(shown - offline)),
        side_caches=_side_caches(files, folder),
        huge_pages=_huge_pages(files, f"{folder}/hugepages"),
        offline_cpus=tuple(sorted((shown | linked) & offline)),
    )
    _add_amounts(files, f"{folder}/meminfo", facts, description)
    return facts


def _add_amounts(
    files: MachineFiles, path: str, facts: NodeFacts, description: Description
) -> None:
    amounts = read_meminfo(files, path)
    facts.memory_bytes = facts.free_bytes = amounts.total or 0
    facts.size_told = amounts.total is not None
    if not facts.size_told:
        return
    if amounts.free is not None:
        facts.free_bytes, facts.reclaimable_bytes = amounts.free, amounts.reclaimable
    elif amounts.total:
        description.notes.append(f"/{path} does not tell what is free: all of it counts as free")


def _huge_pages(files: MachineFiles, folder: str) -> tuple[HugePages, ...]:
    pools = []
    for name in files.names(folder, "hugepages-"):
        size = name[len("hugepages-") :].removesuffix("kB")
        total = read_int(files, f"{folder}/{name}/nr_hugepages")
        if total is not None:
            free = read_int(files, f"{folder}/{name}/free_hugepages") or 0
            pools.append(HugePages(1024 * to_int(size, files.where(folder)), total, free))
    return tuple(sorted(pools, key=lambda pool: pool.size_bytes))


def _side_caches(files: MachineFiles, folder: str) -> tuple[SideCache, ...]:
    caches = []
    for index in numbers(files, f"{folder}/memory_side_cache", "index"):
        path = f"{folder}/memory_side_cache/index{index}"
        if size := read_int(files, f"{path}/size"):
            line = read_int(files, f"{path}/line_size") or 0
            indexing = read_int(files, f"{path}/indexing")
            kind = "unknown" if indexing is None else _INDEXING.get(indexing, "unknown")
            caches.append(SideCache(size, line, kind, f"firmware's HMAT table, in /{path}"))
    return tuple(caches)


def _add_performance(files: MachineFiles, facts: NodeFacts, description: Description) -> None:
    """Fill in what the firmware's HMAT table says of a node as seen from its nearest cpus."""
    # access1 counts only cpus as initiators, access0 (all that older kernels have) also devices.
    for access in ("access1", "access0"):
        folder = f"{NODES}/node{facts.id}/{access}/initiators"
        named = [node for node in numbers(files, folder, "node") if node in description.nodes]
        initiators = tuple(node for node in named if description.nodes[node].cpus)
        if named and not initiators:
            continue
        if initiators and not facts.initiators:
            facts.initiators, facts.initiators_source = initiators, f"HMAT table, in /{folder}"
        read = read_int(files, f"{folder}/read_bandwidth")
        write = read_int(files, f"{folder}/write_bandwidth")
        if read or write:
            facts.read_bandwidth, facts.write_bandwidth = read or None, write or None
            facts.read_latency = read_int(files, f"{folder}/read_latency") or None
            facts.performance_source = f"HMAT table, in /{folder}"
            facts.zero_performance = False
            return
        facts.zero_performance |= read == 0


def _add_distances(files: MachineFiles, description: Description) -> None:
    ids = tuple(description.nodes)
    # A row has a value for every node that is online: some containers hide the folders of others.
    columns = read_list(files, f"{NODES}/online") or ids
    missing = []
    for node in ids:
        path = f"{NODES}/node{node}/distance"
        words = (files.read_text(path) or "").split()
        values = [to_int(word, files.where(path)) for word in words]
        known = next((them for them in (columns, ids) if len(them) == len(values)), None)
        if known is None:
            missing.append(node)
            continue
        row = zip(known, values, strict=True)
        description.distances |= {(node, to): value for to, value in row if to in ids}
    unknown = f", but none that fits for nodes {format_cpulist(missing)}" if missing else ""
    if description.distances:
        description.sources.append(f"distances: /{NODES}/node*/distance{unknown}")
    elif len(ids) > 1:
        description.notes.append(
            f"no distances between the nodes: /{NODES}/node*/distance{unknown}"
        )


def _add_tiers(files: MachineFiles, description: Description) -> None:
    found = False
    for tier in numbers(files, TIERS, "memory_tier"):
        for node in read_list(files, f"{TIERS}/memory_tier{tier}/nodelist") or ():
            if node in description.nodes:
                description.nodes[node].tier, found = tier, True
    if found:
        description.sources.append(f"memory tiers: /{TIERS}")
