"""A machine's cores and memories: plain facts, each conclusion with the evidence for it.

    package > NUMA node > last-level cache > tile (cores that share an L2) > core > cpu

A *cpu* is a hardware thread, by the number that the operating system gives it. Memory that has no
cpus of its own (MCDRAM and HBM in flat mode, CXL, persistent memory, GPUs) is a NUMA node as well;
`NumaNode.near` says whose it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

MemoryKind: TypeAlias = Literal["dram", "hbm", "cxl", "pmem", "gpu", "unknown"]
CacheKind: TypeAlias = Literal["data", "instruction", "unified"]


@dataclass(frozen=True, slots=True)
class Core:
    """A physical core: the smallest thing that is ever given to a worker.

    `id` is the kernel's core id, which repeats between packages; `cpus` are the OS ids of its
    hardware threads, ascending.
    """

    id: int
    package: int
    numa_node: int
    cpus: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache and the cpus that share it."""

    level: int
    kind: CacheKind
    size_bytes: int
    line_bytes: int
    cpus: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SideCache:
    """Faster memory that the hardware uses as a cache of a NUMA node: MCDRAM or HBM in cache mode.

    `associativity` is "direct", "indexed" or "unknown"; `evidence` says what told of it. `assumed`
    if the size is that of all machines of this make, and not told by this one.
    """

    size_bytes: int
    line_bytes: int
    associativity: str
    evidence: str
    assumed: bool = False


@dataclass(frozen=True, slots=True)
class HugePages:
    """A node's pool of reserved huge pages of one size."""

    size_bytes: int
    total: int
    free: int


@dataclass(frozen=True, slots=True)
class NumaNode:
    """A memory of the machine, with the cpus next to it (none for MCDRAM and HBM in flat mode).

    `near` are the nodes with cpus whose memory this is: itself if it has cpus, or the nodes where
    these are at home if several nodes list them (``numa=fake``). Bandwidth (MB/s)
    and latency (ns) are as seen from there and None where nothing tells them. `tier` is the
    kernel's memory tier: lower is faster. `reclaimable_bytes` hold clean pages of files and are
    not in `free_bytes`: the kernel drops those pages, but only for who may go to no other node.
    Without `size_told` the bytes are 0 because nothing tells them.
    """

    id: int
    cpus: tuple[int, ...]
    memory_bytes: int
    free_bytes: int
    kind: MemoryKind
    evidence: str
    near: tuple[int, ...] = ()
    near_evidence: str = ""
    bandwidth_mb_per_second: int | None = None
    latency_ns: int | None = None
    performance_source: str = ""
    tier: int | None = None
    side_caches: tuple[SideCache, ...] = ()
    huge_pages: tuple[HugePages, ...] = ()
    reclaimable_bytes: int = 0
    size_told: bool = True


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU, by its address on the PCI bus: "0000:3b:00.0".

    `uuid` is the driver's name for it, which no other device has ("" where no driver tells it).
    `cpus` are the hardware threads of the cores next to it, `numa_node` their node: None where they
    are of several, or nothing tells. The rate is that of the fastest mode of the card's link, in
    GB/s and one direction; its slot may be slower.
    """

    address: str
    vendor: str
    model: str
    uuid: str
    numa_node: int | None
    cpus: tuple[int, ...]
    evidence: str
    link_gb_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class Modes:
    """Firmware modes of cores and memories, by the vendor's names, with evidence.

    `cluster`: "SNC-4", "quadrant", "all-to-all, hemisphere or quadrant", "NPS-2", "one node per
    package" ...; `memory`: "flat", "cache", "hybrid", "HBM only", "DRAM only" ...
    """

    cluster: str
    cluster_evidence: str
    memory: str
    memory_evidence: str


@dataclass(frozen=True)
class Topology:
    """The machine: its cores ordered by package, NUMA node and cpu, and its memories by id.

    `distances[i][j]` is the firmware's distance from `numa_nodes[i]` to `numa_nodes[j]` (10: to
    itself), empty where not known. `sources` name the files that were read, `notes` are messages
    for a user of this machine.
    """

    model: str
    vendor: str
    isa: tuple[str, ...]
    cores: tuple[Core, ...]
    numa_nodes: tuple[NumaNode, ...]
    sources: tuple[str, ...]
    caches: tuple[Cache, ...] = ()
    distances: tuple[tuple[int, ...], ...] = ()
    modes: Modes | None = None
    offline_cpus: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    gpus: tuple[Gpu, ...] = ()

    @cached_property
    def cpus(self) -> tuple[int, ...]:
        """OS ids of all online hardware threads, ascending."""
        return tuple(sorted(cpu for core in self.cores for cpu in core.cpus))

    @cached_property
    def tiles(self) -> tuple[tuple[Core, ...], ...]:
        """The cores in groups that share an L2 (Xeon Phi's tiles; elsewhere mostly one core)."""
        return self._sharing(level=2)

    @cached_property
    def l3_groups(self) -> tuple[tuple[Core, ...], ...]:
        """The cores in groups that share an L3; each its own group where there is none."""
        return self._sharing(level=3)

    def node(self, node_id: int) -> NumaNode:
        """The NUMA node with this id; KeyError if there is none."""
        return self._node_by_id[node_id]

    def memory_near(self, numa_nodes: Iterable[int]) -> tuple[NumaNode, ...]:
        """All memories of the cores on these nodes: with and without cpus, by id."""
        wanted = frozenset(numa_nodes)
        return tuple(node for node in self.numa_nodes if wanted.intersection(node.near))

    @cached_property
    def _node_by_id(self) -> dict[int, NumaNode]:
        return {node.id: node for node in self.numa_nodes}

    def _sharing(self, level: int) -> tuple[tuple[Core, ...], ...]:
        shared = {
            cpu: number
            for number, cache in enumerate(self.caches)
            if cache.level == level and cache.kind != "instruction"
            for cpu in cache.cpus
        }
        groups: defaultdict[tuple[str, int], list[Core]] = defaultdict(list)
        for position, core in enumerate(self.cores):
            cache = shared.get(core.cpus[0])
            groups[("core", position) if cache is None else ("cache", cache)].append(core)
        return tuple(tuple(group) for group in groups.values())
