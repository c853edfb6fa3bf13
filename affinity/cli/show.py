"""A machine as text: its cores and memories, with the evidence for each conclusion."""

from __future__ import annotations

from collections.abc import Iterable

from affinity.cli.layout import bullets, columns, page, paragraph, section, told_of
from affinity.cli.phrases import kind_word, machine_name
from affinity.cli.tree import machine_tree
from affinity.cpulist import format_cpulist
from affinity.numbers import format_bytes
from affinity.placement.wording import counted, listed
from affinity.process.allowed import AllowedResources
from affinity.topology import Core, Gpu, NumaNode, Topology


def show_machine(topology: Topology, allowed: AllowedResources | None = None) -> str:
    """The whole machine as text; with `allowed`, also what this process may use of it."""
    return page(
        (
            machine_head(topology),
            machine_tree(topology),
            section("Set up as", _modes(topology)),
            section("Known by", _evidence(topology)),
            section("GPUs", _gpus(topology)),
            section("Distances, as the firmware gives them", _distances(topology)),
            section("This process may use", allowed_lines(topology, allowed)),
            section("To note", bullets(topology.notes)),
            section("Read from", [paragraph("; ".join(topology.sources), width=98)]),
        )
    )


def machine_head(topology: Topology) -> str:
    """The processors' name, the numbers of packages, cores and threads, memory and caches."""
    packages = counted(len({core.package for core in topology.cores}), "package")
    cores = counted(len(topology.cores), "core")
    threads = counted(len(topology.cpus), "hardware thread")
    lines = [
        machine_name(topology),
        f"{packages}, {cores}, {threads}{_per_core(topology.cores)}",
        paragraph(_memory(topology), "memory  "),
        paragraph("; ".join(_caches(topology)) or "not told", "caches  "),
        paragraph(" ".join(topology.isa) or "not told", "vectors "),
    ]
    if topology.offline_cpus:
        lines.append(f"offline cpus {format_cpulist(topology.offline_cpus)}, switched off")
    return "\n".join(lines)


def allowed_lines(topology: Topology, allowed: AllowedResources | None) -> list[str]:
    """Cpus, memory nodes and time that may be used, and who limits them."""
    if allowed is None:
        return []
    lines = [part("cpu", allowed.cpus, topology.cpus)]
    if allowed.mems is not None:
        nodes = [node.id for node in topology.numa_nodes]
        lines.append(part("memory node", allowed.mems, nodes))
    limits = [paragraph(words, "limited by ", 98) for words in allowed.said_by]
    return [*lines, *limits, *bullets(allowed.notes)]


def _per_core(cores: Iterable[Core]) -> str:
    counts = sorted({len(core.cpus) for core in cores})
    return f" ({' or '.join(map(str, counts))} per core)"


def _memory(topology: Topology) -> str:
    sizes = {"dram": 0, "hbm": 0}
    for node in topology.numa_nodes:
        sizes[node.kind] = sizes.get(node.kind, 0) + node.memory_bytes
    words = [
        f"{format_bytes(size)} {kind_word(topology, kind)}" for kind, size in sizes.items() if size
    ]
    sizes_told = listed(words) if words else "of a size not told"
    return f"{sizes_told} in {counted(len(topology.numa_nodes), 'NUMA node')}"


def _caches(topology: Topology) -> list[str]:
    core_of = {cpu: position for position, core in enumerate(topology.cores) for cpu in core.cpus}
    sharing: dict[int, dict[str, None]] = {}
    for cache in sorted(topology.caches, key=lambda cache: (cache.level, cache.kind)):
        cores = len({core_of[cpu] for cpu in cache.cpus if cpu in core_of})
        letter = {"data": "d", "instruction": "i", "unified": ""}[cache.kind]
        words = f"L{cache.level}{letter} {format_bytes(cache.size_bytes)}"
        sharing.setdefault(cores, {})[words] = None
    return [
        f"{', '.join(words)} per {'core' if cores == 1 else f'{cores} cores'}"
        for cores, words in sharing.items()
    ]


def _modes(topology: Topology) -> list[str]:
    modes = topology.modes
    if modes is None:
        return []
    told = (
        ("cores", modes.cluster, modes.cluster_evidence),
        ("memory", modes.memory, modes.memory_evidence),
    )
    return [
        paragraph(f"{mode} ({evidence})" if evidence else mode, f"{what:<8}", 98)
        for what, mode, evidence in told
    ]


def _evidence(topology: Topology) -> list[str]:
    told: list[tuple[int, str]] = []
    for node in topology.numa_nodes:
        told.append((node.id, f"{kind_word(topology, node.kind)}: {_of_any(node, node.evidence)}"))
        if node.near_evidence and node.near != (node.id,):
            near = f"near node{'s' if len(node.near) > 1 else ''} {format_cpulist(node.near)}"
            told.append((node.id, f"{near}: {_of_any(node, node.near_evidence)}"))
        if node.performance_source:
            source = _of_any(node, node.performance_source)
            told.append((node.id, f"bandwidth and latency: {source}"))
    return told_of("node", told)


def _gpus(topology: Topology) -> list[str]:
    rows = [
        [gpu.address, gpu.uuid or "UUID not told", _where(gpu), gpu.evidence]
        for gpu in topology.gpus
    ]
    return columns(rows)


def _where(gpu: Gpu) -> str:
    if gpu.numa_node is None:
        return f"near cpus {format_cpulist(gpu.cpus)}" if gpu.cpus else "at no node"
    return f"at node {gpu.numa_node}"


def _of_any(node: NumaNode, evidence: str) -> str:
    # Files of the nodes differ in the number only: said once, they fit all.
    return evidence.replace(f"/node{node.id}/", "/nodeN/")


def _distances(topology: Topology) -> list[str]:
    if len(topology.numa_nodes) < 2 or not topology.distances:
        return []
    ids = [f"{node.id}" for node in topology.numa_nodes]
    rows = [[f"node {at}", *map(str, row)] for at, row in zip(ids, topology.distances, strict=True)]
    return columns([["to node", *ids], *rows], right=range(1, len(ids) + 1))


def part(noun: str, allowed: Iterable[int], there: Iterable[int]) -> str:
    """The allowed part of a set: ``"2 of 8 cpus: 0-1"``."""
    may, all_ = frozenset(allowed), frozenset(there)
    if may >= all_:
        if len(all_) == 1:
            return f"the only {noun}: {format_cpulist(all_)}"
        return f"all {counted(len(all_), noun)}: {format_cpulist(all_)}"
    return (
        f"{len(may & all_)} of {counted(len(all_), noun)}: {format_cpulist(may & all_) or 'none'}"
    )
