"""A machine as a tree: packages, their NUMA nodes, and the memories and GPUs of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, repeat
from typing import Final, Literal

from affinity.cli.homes import Home, homes, shared_memories
from affinity.cli.layout import columns
from affinity.cli.phrases import format_rate, kind_word
from affinity.cpulist import format_cpulist
from affinity.numbers import format_bytes
from affinity.placement.wording import counted
from affinity.topology import Gpu, NumaNode, Topology

_COLUMNS: Final = (("title", ()), ("cores", ()), ("memory", (2, 3, 4, 5)), ("gpu", (2,)))
"""The sorts of lines, and which of their cells stand on the right of their columns."""

_INDEXING = {"direct": " (direct-mapped)", "indexed": " (complex indexing)"}


def machine_tree(topology: Topology) -> str:
    """Draw the tree; memories that are near several nodes stand below all packages."""
    lines: list[_Line] = []
    for package, group in groupby(homes(topology), key=lambda home: home.package):
        members = list(group)
        lines.append(_Line("title", (f"package {package}",)))
        for home in members:
            lines.extend(_branch(topology, home, last=home is members[-1]))
    return "\n".join(_aligned([*lines, *_shared_branch(topology)]))


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of the tree; the cells of all lines of one `sort` line up."""

    sort: Literal["title", "cores", "memory", "gpu"]
    cells: tuple[str, ...]


def _branch(topology: Topology, home: Home, last: bool) -> Iterator[_Line]:
    cpus = format_cpulist(cpu for core in home.cores for cpu in core.cpus)
    stem, trunk = ("└─ ", "   ") if last else ("├─ ", "│  ")
    yield _Line("cores", (f"{stem}node {home.node}", count_cores(topology, home), f"cpus {cpus}"))
    memories = ((memory, _extras(memory)) for memory in home.memories)
    yield from _leaves(topology, trunk, list(memories), home.gpus)


def _shared_branch(topology: Topology) -> Iterator[_Line]:
    memories = [
        (
            memory,
            [
                f"near nodes {format_cpulist(memory.near)}" if memory.near else "near no cores",
                *_extras(memory),
            ],
        )
        for memory in shared_memories(topology)
    ]
    gpus = [gpu for gpu in topology.gpus if gpu.numa_node is None]
    if memories or gpus:
        yield _Line("title", ("not of one node alone",))
    yield from _leaves(topology, "", memories, gpus)


def _leaves(
    topology: Topology,
    trunk: str,
    memories: Sequence[tuple[NumaNode, list[str]]],
    gpus: Sequence[Gpu],
) -> Iterator[_Line]:
    """Memories, each with what more is to say of it, then GPUs."""
    forks = chain(repeat("├─ ", len(memories) + len(gpus) - 1), ["└─ "])
    for (memory, extras), fork in zip(memories, forks, strict=False):
        yield _Line("memory", _memory_cells(topology, trunk + fork, memory, extras))
    for gpu, fork in zip(gpus, forks, strict=False):
        rate = gpu.link_gb_per_second
        link = "" if rate is None else f"link {format_rate(round(rate * 1000))}"
        yield _Line("gpu", (f"{trunk}{fork}GPU {gpu.address}", gpu.model, link))


def count_cores(topology: Topology, home: Home) -> str:
    """The cores of a node and how they share caches: ``"18 cores in 9 tiles"``."""
    own = frozenset(home.cores)
    tiles = [tile for tile in topology.tiles if tile[0] in own]
    l3_groups = [group for group in topology.l3_groups if group[0] in own]
    sharing = [
        counted(len(groups), noun)
        for groups, noun, least in ((tiles, "tile", 1), (l3_groups, "L3 group", 2))
        if len(groups) >= least and max(map(len, groups)) > 1
    ]
    return " in ".join(filter(None, (counted(len(own), "core"), " and ".join(sharing))))


def _memory_cells(
    topology: Topology, lead: str, node: NumaNode, extras: list[str]
) -> tuple[str, ...]:
    bandwidth, latency = node.bandwidth_mb_per_second, node.latency_ns
    return (
        lead + kind_word(topology, node.kind),
        f"node {node.id}",
        format_bytes(node.memory_bytes) if node.size_told else "size not told",
        f"{format_bytes(node.free_bytes)} free" if node.size_told else "",
        "" if bandwidth is None else format_rate(bandwidth),
        "" if latency is None else f"{latency} ns",
        ", ".join(extras),
    )


def _extras(node: NumaNode) -> list[str]:
    caches = [
        f"behind a memory-side cache of {format_bytes(cache.size_bytes)}"
        f"{_INDEXING.get(cache.associativity, '')}"
        for cache in node.side_caches
    ]
    pools = [
        f"{counted(pool.total, 'huge page')} of {format_bytes(pool.size_bytes)} ({pool.free} free)"
        for pool in node.huge_pages
        if pool.total
    ]
    return [*caches, *pools]


def _aligned(lines: Sequence[_Line]) -> list[str]:
    texts: dict[int, str] = {}
    for sort, right in _COLUMNS:
        chosen = {number: line.cells for number, line in enumerate(lines) if line.sort == sort}
        if chosen:
            texts.update(zip(chosen, columns(list(chosen.values()), right), strict=True))
    return [texts[number] for number in range(len(lines))]
