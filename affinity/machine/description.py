"""A machine as it was read: facts only, before anything is concluded from them.

Every reader (sysfs, hwloc's XML, numactl's text, libvirt's XML) fills in what its source tells, and
leaves the rest None or empty. `inference.py` makes a `Topology` of it, so that the same evidence
leads to the same conclusion for every source.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from affinity.topology import Cache, HugePages, MemoryKind, SideCache


@dataclass(frozen=True, slots=True)
class Processor:
    """Identification of the processor: ``/proc/cpuinfo``'s fields, as numbers where they are."""

    vendor: str = "unknown"
    family: int | None = None
    model: int | None = None
    name: str = "unknown"
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ThreadPlace:
    """The core of a hardware thread: equal for the threads of one core."""

    package: int
    core: int
    siblings: str = ""


@dataclass(frozen=True, slots=True)
class ToldKind:
    """A source's own name for the kind of a memory, such as hwloc's subtype "MCDRAM"."""

    kind: MemoryKind
    by: str


@dataclass(slots=True)
class NodeFacts:
    """What is known of one NUMA node. Bandwidths in MB/s, latencies in ns: None if not given.

    Firmware that leaves its table empty gives zeros: readers leave those as None, and name the
    node in `zero_performance`. `initiators` are the nodes with cpus that the source itself calls
    nearest. `dax` is what a device behind the memory is ("pmem", "cxl", "soft-reserved").
    `offline_cpus` are cpus beside this memory that are switched off: a node with no others only
    looks like one without cpus. Without `size_told`, `memory_bytes` is 0 because nothing tells it.
    """

    id: int
    cpus: tuple[int, ...] = ()
    memory_bytes: int = 0
    free_bytes: int = 0
    reclaimable_bytes: int = 0
    read_bandwidth: int | None = None
    write_bandwidth: int | None = None
    read_latency: int | None = None
    performance_source: str = ""
    zero_performance: bool = False
    initiators: tuple[int, ...] = ()
    initiators_source: str = ""
    tier: int | None = None
    dax: str | None = None
    told: ToldKind | None = None
    side_caches: tuple[SideCache, ...] = ()
    huge_pages: tuple[HugePages, ...] = ()
    offline_cpus: tuple[int, ...] = ()
    size_told: bool = True

    @property
    def holds_memory(self) -> bool:
        """Whether there is memory, as far as is known: of what size need not be told."""
        return self.memory_bytes > 0 or not self.size_told


@dataclass(frozen=True, slots=True)
class KnightsFirmware:
    """What SMBIOS tells of a Xeon Phi; `cluster_mode` and `memory_mode` as hwloc's dump has them.

    `cluster_mode`: All2All, Hemisphere, Quadrant, SNC2, SNC4; `memory_mode`: Cache, Flat,
    Hybrid25, Hybrid50; None where an old dump does not say. `cache_bytes` is the part of MCDRAM
    used as a cache by each node with DRAM.
    """

    cluster_mode: str | None
    memory_mode: str | None
    cache_bytes: int
    source: str


@dataclass(slots=True)
class GpuFacts:
    """What is known of a GPU: see `Gpu`. `told_node` and `cpus` are what `source` says of it."""

    address: str
    vendor: str
    model: str
    uuid: str = ""
    told_node: int | None = None
    cpus: tuple[int, ...] = ()
    source: str = ""
    link_gb_per_second: float | None = None


@dataclass(slots=True)
class Description:
    """All that a source tells of a machine. `distances[i, j]` by node ids, as the firmware says.

    `installed` are the kinds of memory modules that SMBIOS lists, such as "DDR5" and "HBM2".
    """

    processor: Processor = field(default_factory=Processor)
    threads: dict[int, ThreadPlace] = field(default_factory=dict)
    caches: list[Cache] = field(default_factory=list)
    nodes: dict[int, NodeFacts] = field(default_factory=dict)
    distances: dict[tuple[int, int], int] = field(default_factory=dict)
    knights: KnightsFirmware | None = None
    offline_cpus: tuple[int, ...] = ()
    sources: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    installed: tuple[str, ...] = ()
    gpus: list[GpuFacts] = field(default_factory=list)


HBM_RATIO = 2.0
"""Memory with more than this many times the bandwidth of DRAM is HBM."""


@dataclass(frozen=True, slots=True)
class Kind:
    """The kind of a memory, and the evidence; `not_hbm` if only that is known."""

    kind: MemoryKind
    evidence: str
    not_hbm: bool = False


def format_ratio(ratio: float) -> str:
    """Write a ratio with one digit, which is not rounded up to `HBM_RATIO`: 1.96 is 1.9 times."""
    rounded = round(ratio, 1)
    return f"{math.floor(ratio * 10) / 10 if ratio < HBM_RATIO <= rounded else rounded:.1f}"
