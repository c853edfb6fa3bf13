"""Firmware modes of cores and memories: clusters, and HBM as memory or as a cache."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from affinity import terms
from affinity.cpulist import format_cpulist
from affinity.machine.description import Description, Kind
from affinity.machine.distance_tables import SNC_CLUSTERS
from affinity.machine.locality import shared_cpus
from affinity.machine.memory_beside_cpus import offline_hbm
from affinity.machine.memory_kind import may_be_hbm
from affinity.machine.processors import Identity, is_virtual, takes_optane, vendor_of
from affinity.numbers import format_bytes
from affinity.topology import MemoryKind, Modes, SideCache

_NAMES: dict[MemoryKind, str] = {
    "dram": "DRAM",
    "hbm": "HBM",
    "cxl": "CXL",
    "pmem": "persistent memory",
    "gpu": "memory of a GPU",
    "unknown": "memory of unknown kind",
}


def conclude_modes(
    description: Description, identity: Identity, kinds: Mapping[int, Kind]
) -> tuple[Modes, dict[int, tuple[SideCache, ...]]]:
    """The modes of the machine, and the memory-side caches of each node.

    The caches are those that the source tells, and on a Xeon Phi those that follow from its mode.
    """
    if identity.family == "knights":
        from affinity.machine.knights_modes import knights_modes

        return knights_modes(description, kinds)
    cluster, cluster_evidence = _cluster(description, identity)
    memory, memory_evidence = _memory(description, identity, kinds)
    told = {node: facts.side_caches for node, facts in description.nodes.items()}
    return Modes(cluster, cluster_evidence, memory, memory_evidence), told


def _cluster(description: Description, identity: Identity) -> tuple[str, str]:
    packages = _packages_of_nodes(description)
    if not any(facts.memory_bytes for facts in description.nodes.values()):
        return "unknown", "the source tells nothing of memory, so that its nodes are no evidence"
    if shared_cpus(description):
        return "unknown", "several nodes list the same cpus, so they are no evidence of clusters"
    if len(packages) < 2:
        (over,) = packages.values() or ({0},)
        return _one_node(identity, description, len(over))
    if any(len(over) > 1 for over in packages.values()):
        return "unknown", "some nodes hold cores of several packages, others do not"
    counts = _nodes_per_package(packages)
    if len(set(counts)) > 1:
        listed = ", ".join(map(str, counts))
        return f"{min(counts)} to {max(counts)} nodes per package", f"per package: {listed}"
    return _even_clusters(description, identity, counts[0], len(counts))


def _one_node(identity: Identity, description: Description, packages: int) -> tuple[str, str]:
    evidence = "one node holds all cores"
    if packages == 1:
        quadrant = identity.family == "xeon max"
        return ("quadrant", f"{evidence}: SNC is off") if quadrant else ("one node", evidence)
    evidence = f"{evidence} of {packages} packages"
    nps = packages == 2 and _is_amd(description)
    return ("NPS-0", evidence) if nps else (f"one node over {packages} packages", evidence)


def _even_clusters(
    description: Description, identity: Identity, nodes: int, packages: int
) -> tuple[str, str]:
    """The name of `nodes` NUMA nodes with cpus in each package."""
    each = "the package" if packages == 1 else f"each of {packages} packages"
    evidence = f"{nodes} node{'s' if nodes > 1 else ''} with cpus in {each}"
    if is_virtual(description.processor):
        evidence += ", as the hypervisor shows them"
    if nodes == 1:
        if identity.family == "xeon max":
            return "quadrant", f"{evidence}: SNC is off"
        return ("NPS-1" if _is_amd(description) else "one node per package"), evidence
    if _one_l3_per_node(description) and _is_amd(description) and nodes not in (2, 4):
        return "L3 as NUMA", f"{evidence}, one for each L3"
    if _is_amd(description):
        return f"NPS-{nodes}", evidence
    if _is_intel(description, identity) and nodes <= SNC_CLUSTERS:
        return f"SNC-{nodes}", evidence
    if identity.family == "xeon max":
        return "unknown", f"{evidence}, and a Xeon Max has {SNC_CLUSTERS} at the most"
    return f"{nodes} nodes per package", evidence


def _is_intel(description: Description, identity: Identity) -> bool:
    processor = description.processor
    plain = vendor_of(processor) == "intel" and not is_virtual(processor)
    return identity.family == "xeon max" or plain


def _is_amd(description: Description) -> bool:
    processor = description.processor
    return vendor_of(processor) == "amd" and not is_virtual(processor)


def _one_l3_per_node(description: Description) -> bool:
    shared = {frozenset(cache.cpus) for cache in description.caches if cache.level == 3}
    return shared == {frozenset(f.cpus) for f in description.nodes.values() if f.cpus}


def _packages_of_nodes(description: Description) -> dict[int, set[int]]:
    """The packages whose cores each node holds, for the nodes that have cpus."""
    found: defaultdict[int, set[int]] = defaultdict(set)
    for node, facts in description.nodes.items():
        for cpu in facts.cpus:
            if cpu in description.threads:
                found[node].add(description.threads[cpu].package)
    return dict(found)


def _nodes_per_package(packages: Mapping[int, set[int]]) -> list[int]:
    counts: defaultdict[int, int] = defaultdict(int)
    for over in packages.values():
        counts[min(over)] += 1
    return [counts[package] for package in sorted(counts)]


def _memory(
    description: Description, identity: Identity, kinds: Mapping[int, Kind]
) -> tuple[str, str]:
    present = {node: kinds[node].kind for node, f in description.nodes.items() if f.holds_memory}
    hbm = [node for node, kind in present.items() if kind == "hbm"]
    if not hbm and not any(facts.memory_bytes for facts in description.nodes.values()):
        return "unknown", "the source tells nothing of memory"
    if hbm and len(hbm) == len(present):
        return "HBM only", kinds[hbm[0]].evidence
    own = [node for node in present if description.nodes[node].cpus]
    if own and set(own) <= set(hbm) and "dram" not in present.values():
        return "HBM only", f"{kinds[own[0]].evidence}; besides, {_listed(present, set(own))}"
    cached = any(facts.side_caches for facts in description.nodes.values())
    if hbm and cached:
        return "hybrid", "there are nodes of HBM, and memory-side caches too"
    if hbm:
        return "flat", f"HBM is memory of its own, at NUMA node {format_cpulist(hbm)}"
    if cached:
        return "cache", _what_caches(description, identity)
    if identity.family == "xeon max":
        return _no_hbm_in_sight(description, may_be_hbm(kinds, description))
    return _without_hbm(set(present.values()))


def _what_caches(description: Description, identity: Identity) -> str:
    caches = [cache for facts in description.nodes.values() for cache in facts.side_caches]
    sizes = sorted({cache.size_bytes for cache in caches})
    found = f"memory-side caches of {' and '.join(map(format_bytes, sizes))} ({caches[0].evidence})"
    if identity.family == "xeon max":
        return f"{found}: HBM caches DRAM"
    if takes_optane(description.processor):
        return f"{found}: on a Xeon without HBM, DRAM caches persistent memory (Optane)"
    return f"{found}; what they are made of is not told"


def _no_hbm_in_sight(description: Description, unknown: str) -> tuple[str, str]:
    """Of a Xeon Max; `unknown` are the ids of nodes that may be HBM for all that is known."""
    if offline := offline_hbm(description):
        return "flat, with HBM offline", offline
    if unknown:
        return (
            "flat, cache or flat with HBM offline; cannot be told",
            f"a Xeon Max with memory of unknown kind at NUMA node {unknown}: it is flat if that is "
            f"HBM ({terms.hbm(unknown)}), as nothing else is, nor is there a memory-side cache",
        )
    return (
        "cache or flat with HBM offline; cannot be told",
        "a Xeon Max with more memory than its HBM, that shows neither HBM nor a memory-side cache"
        + (", behind a hypervisor" if is_virtual(description.processor) else ""),
    )


def _without_hbm(kinds: set[str]) -> tuple[str, str]:
    if kinds == {"dram"}:
        return "DRAM only", "all memory is next to cpus, and nothing says that it is not DRAM"
    listed = [word for kind, word in _NAMES.items() if kind in kinds]
    return " and ".join(listed), "from the kinds of all memories"


def _listed(present: Mapping[int, MemoryKind], left_out: set[int]) -> str:
    """Write ``"CXL at NUMA node 2"`` for all memories but those left out."""
    return " and ".join(
        f"{word} at NUMA node {format_cpulist(nodes)}"
        for kind, word in _NAMES.items()
        if (nodes := [node for node in present if present[node] == kind and node not in left_out])
    )
