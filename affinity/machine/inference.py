"""Concludes from the facts of a machine what they mean: `Description` to `Topology`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from affinity import terms
from affinity.cpulist import format_cpulist
from affinity.errors import TopologyError
from affinity.machine.description import Description, Kind, NodeFacts, Processor, ThreadPlace
from affinity.machine.gpus import conclude_gpus
from affinity.machine.locality import (
    Locality,
    homes_of_cpus,
    locality,
    nodes_with_cpus,
    shared_cpus,
)
from affinity.machine.memory_kind import HbmWord, memory_kinds, unknown_hbm
from affinity.machine.modes import conclude_modes
from affinity.machine.processors import Identity, identify, only_hbm
from affinity.topology import Core, NumaNode, SideCache, Topology

ISA_FLAGS = (
    *("avx", "avx2", "fma", "avx512f", "avx512vl", "avx512bw", "avx512er", "avx512_4fmaps"),
    *("avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16"),
    *("asimd", "sve", "sve2", "bf16"),
)
"""Processor flags that decide which kernels can run (x86, then ARM), as Linux spells them."""


def conclude(description: Description, hbm: Sequence[HbmWord] = ()) -> Topology:
    """The topology that follows from `description`; `hbm`, named by the user, takes precedence.

    Raises TopologyError if there are no cpus, or `hbm` names nodes that do not exist.
    """
    if not description.threads:
        sources = "; ".join(description.sources) or "nothing"
        raise TopologyError(f"this describes no cpus, so nothing can be placed (read: {sources})")
    _check_words(description, hbm)
    identity = identify(description)
    near = _localities(description, hbm)
    kinds = memory_kinds(description, identity, near, hbm)
    modes, caches = conclude_modes(description, identity, kinds)
    ids = sorted(description.nodes)
    # An empty machine cannot be: without nodes all cores are on node 0, of unknown size.
    nodes = tuple(
        _numa_node(description.nodes[node], kinds[node], near[node], caches[node]) for node in ids
    ) or (_nameless_memory(description),)
    return Topology(
        model=_model(description.processor, identity),
        vendor=description.processor.vendor,
        isa=tuple(flag for flag in ISA_FLAGS if flag in description.processor.flags),
        cores=_cores(description),
        numa_nodes=nodes,
        sources=tuple(description.sources),
        caches=tuple(description.caches),
        distances=_distances(description, ids),
        modes=modes,
        offline_cpus=description.offline_cpus,
        notes=_notes(description, kinds, near),
        gpus=conclude_gpus(description),
    )


def _model(processor: Processor, identity: Identity) -> str:
    """The processor's name, or what its numbers say where it has none."""
    if processor.name == "unknown" and (known := only_hbm(processor)):
        return known.called
    if identity.family != "knights" or identity.guessed or "Xeon Phi" in processor.name:
        return processor.name
    return f"Xeon Phi ({identity.name if processor.name == 'unknown' else processor.name})"


def _check_words(description: Description, hbm: Sequence[HbmWord]) -> None:
    for word in hbm:
        if word.node not in description.nodes:
            known = format_cpulist(description.nodes)
            raise TopologyError(
                f"{word.by} names NUMA node {word.node}, but this machine has {known}"
            )
        owners = nodes_with_cpus(description)
        if word.near is not None and word.near not in owners:
            raise TopologyError(
                f"{word.by} says that node {word.node} is near to node {word.near}, which has no "
                f"cpus: nodes with cpus are {format_cpulist(owners)}"
            )


def _localities(description: Description, hbm: Sequence[HbmWord]) -> dict[int, Locality]:
    near = {node: locality(description, node) for node in description.nodes}
    said = {
        word.node: Locality((word.near,), f"the user says so: {word.by}")
        for word in hbm
        if word.near is not None
    }
    return {**near, **said}


def _numa_node(
    facts: NodeFacts, kind: Kind, near: Locality, caches: tuple[SideCache, ...]
) -> NumaNode:
    return NumaNode(
        id=facts.id,
        cpus=facts.cpus,
        memory_bytes=facts.memory_bytes,
        free_bytes=facts.free_bytes,
        kind=kind.kind,
        evidence=kind.evidence,
        near=near.near,
        near_evidence=near.evidence,
        bandwidth_mb_per_second=facts.read_bandwidth or facts.write_bandwidth,
        latency_ns=facts.read_latency,
        performance_source=facts.performance_source,
        tier=facts.tier,
        side_caches=caches,
        huge_pages=facts.huge_pages,
        reclaimable_bytes=facts.reclaimable_bytes,
        size_told=facts.size_told,
    )


def _nameless_memory(description: Description) -> NumaNode:
    evidence = "the source tells nothing of memory, so all of it counts as one node"
    return NumaNode(0, tuple(sorted(description.threads)), 0, 0, "unknown", evidence, (0,))


def _cores(description: Description) -> tuple[Core, ...]:
    node_of = homes_of_cpus(description)
    # Cpus that no node lists (containers hide some) count for the first that has any.
    first = next(iter(nodes_with_cpus(description)), min(description.nodes, default=0))
    members: defaultdict[ThreadPlace, list[int]] = defaultdict(list)
    for cpu in sorted(description.threads):
        members[description.threads[cpu]].append(cpu)
    cores = (
        Core(place.core, place.package, node_of.get(cpus[0], first), tuple(cpus))
        for place, cpus in members.items()
    )
    return tuple(sorted(cores, key=lambda core: (core.package, core.numa_node, core.cpus)))


def _distances(description: Description, ids: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """All distances between the nodes, or none if one is missing."""
    known = description.distances
    if any((a, b) not in known for a in ids for b in ids):
        return ()
    return tuple(tuple(known[a, b] for b in ids) for a in ids)


def _notes(
    description: Description, kinds: Mapping[int, Kind], near: Mapping[int, Locality]
) -> tuple[str, ...]:
    lost = format_cpulist(set(description.threads).difference(homes_of_cpus(description)))
    notes = list(description.notes)
    notes += _shared(description)
    if lost and len(description.nodes) > 1:
        notes.append(f"no NUMA node lists the cpus {lost}: they count as those of the first")
    if way_out := unknown_hbm(kinds, description):
        notes.append(way_out)
    owners = nodes_with_cpus(description)
    if lost_hbm := [node for node in kinds if _is_anybodys(kinds[node], near[node], owners)]:
        notes.append(
            f"nothing tells whose HBM is at NUMA node {format_cpulist(lost_hbm)}, so all cores "
            f"use all of it: if you know, say it as in "
            f"{terms.hbm(f'{lost_hbm[0]}@{owners[0]}')}"
        )
    return tuple(notes)


def _shared(description: Description) -> Iterator[str]:
    """Say where the cores are that several nodes list."""
    if shared := shared_cpus(description):
        holders = [n for n, facts in description.nodes.items() if set(shared) & set(facts.cpus)]
        of_all = homes_of_cpus(description)
        homes = format_cpulist({of_all[cpu] for cpu in shared})
        yield (
            f"cpus {format_cpulist(shared)} are listed by several of the NUMA nodes "
            f"{format_cpulist(holders)}: their cores count as those of {homes}, and the memory of "
            "all is near to them"
        )


def _is_anybodys(kind: Kind, near: Locality, owners: Sequence[int]) -> bool:
    """Whether it is HBM that counts as near to all of several nodes with cpus."""
    return kind.kind == "hbm" and len(owners) > 1 and set(near.near) == set(owners)
