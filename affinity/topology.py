"""What the machine is made of, read from sysfs and procfs without any library.

Every fact that is a conclusion carries its evidence, and `Topology.sources` says which files the
rest came from, because containers hide some of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from affinity.binding import allowed_cpus
from affinity.cpulist import format_cpulist, parse_cpulist
from affinity.errors import TopologyError
from affinity.kernel_files import read_cpuinfo, read_cpus, read_int, read_meminfo, read_text, to_int
from affinity.memory_kind import MemoryKind, memory_kind

ISA_FLAGS = (
    *("avx", "avx2", "fma", "avx512f", "avx512vl", "avx512bw", "avx512er", "avx512_4fmaps"),
    *("avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16"),
    *("asimd", "sve", "sve2", "bf16"),
)
"""Processor flags that decide which kernels can run (x86, then ARM), as Linux spells them."""


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
class NumaNode:
    """A memory of the machine with the cpus next to it (none for MCDRAM and HBM in flat mode)."""

    id: int
    cpus: tuple[int, ...]
    memory_bytes: int
    free_bytes: int
    kind: MemoryKind
    evidence: str


@dataclass(frozen=True, slots=True)
class Topology:
    """The machine: its cores ordered by package, NUMA node and cpu, and its memories by id."""

    model: str
    vendor: str
    isa: tuple[str, ...]
    cores: tuple[Core, ...]
    numa_nodes: tuple[NumaNode, ...]
    sources: tuple[str, ...]

    @property
    def cpus(self) -> tuple[int, ...]:
        """OS ids of all online hardware threads, ascending."""
        return tuple(sorted(cpu for core in self.cores for cpu in core.cpus))


def read_topology(root: Path = Path("/"), allowed: Iterable[int] | None = None) -> Topology:
    """Describe the machine whose ``sys`` and ``proc`` trees lie under `root`.

    `allowed` are cpus that exist for certain, by default those of this process if `root` is ``/``.
    Some containers hide them in the files; each that these do not tell counts as a core.

    Raises TopologyError when no file tells the cpus, or a file holds what the kernel never writes.
    """
    processors = read_cpuinfo(root / "proc/cpuinfo")
    processor = next(iter(processors.values()), {})
    threads, threads_source = _read_threads(root, processors)
    if allowed is None:
        allowed = allowed_cpus() if root == Path("/") else ()
    if hidden := set(allowed).difference(threads):
        threads |= {cpu: _Thread(0, cpu, f"cpu {cpu} alone") for cpu in hidden}
        threads_source += f", cpus {format_cpulist(hidden)}: allowed but not shown, each a core"
    nodes, nodes_source = _read_numa_nodes(root, tuple(sorted(threads)), processor)
    flags = processor.get("flags", processor.get("Features", "")).split()
    return Topology(
        model=processor.get("model name", "unknown"),
        vendor=processor.get("vendor_id", processor.get("CPU implementer", "unknown")),
        isa=tuple(flag for flag in ISA_FLAGS if flag in flags),
        cores=_group_cores(threads, nodes),
        numa_nodes=nodes,
        sources=(threads_source, nodes_source),
    )


@dataclass(frozen=True, slots=True)
class _Thread:
    """What tells which core a hardware thread belongs to: equal for the threads of one core."""

    package: int
    core: int
    siblings: str


def _read_threads(
    root: Path, processors: dict[int, dict[str, str]]
) -> tuple[dict[int, _Thread], str]:
    folder = root / "sys/devices/system/cpu"
    online = set(_online_cpus(folder))
    threads = {cpu: _sysfs_thread(folder, cpu) for cpu in online}
    known = {cpu: thread for cpu, thread in threads.items() if thread is not None}
    if known and len(known) == len(threads):
        # Some containers list other cpus as online than those that run: folders tell of the rest,
        # as an offline cpu has no topology.
        beside = {cpu: _sysfs_thread(folder, cpu) for cpu in _cpu_folders(folder) - online}
        unlisted = {cpu: thread for cpu, thread in beside.items() if thread is not None}
        note = ", some of whose cpus are not listed as online" if unlisted else ""
        return {**known, **unlisted}, f"cores: /sys/devices/system/cpu{note}"
    if not processors:
        raise TopologyError(
            f"cannot tell the cpus of this machine: neither {folder}/cpu*/topology nor "
            f"{root / 'proc/cpuinfo'} can be read; mount /sys or /proc"
        )
    numbered = {cpu: _cpuinfo_thread(root, cpu, block) for cpu, block in processors.items()}
    return numbered, "cores: /proc/cpuinfo, as /sys/devices/system/cpu does not tell them"


def _online_cpus(folder: Path) -> tuple[int, ...]:
    online = read_text(folder / "online")
    if online is not None:
        return parse_cpulist(online)
    return tuple(sorted(_cpu_folders(folder)))


def _cpu_folders(folder: Path) -> set[int]:
    return {int(path.name[3:]) for path in folder.glob("cpu[0-9]*")}


def _sysfs_thread(folder: Path, cpu: int) -> _Thread | None:
    topology = folder / f"cpu{cpu}" / "topology"
    core = read_int(topology / "core_id")
    if core is None:
        return None
    package = read_int(topology / "physical_package_id") or 0
    # Core ids repeat between the dies of some packages, sets of siblings never do.
    return _Thread(package, core, read_text(topology / "thread_siblings_list") or "")


def _cpuinfo_thread(root: Path, cpu: int, block: dict[str, str]) -> _Thread:
    path = root / "proc/cpuinfo"
    package = to_int(block.get("physical id", "0"), path)
    return _Thread(package, to_int(block.get("core id", str(cpu)), path), "")


def _read_numa_nodes(
    root: Path, cpus: tuple[int, ...], processor: dict[str, str]
) -> tuple[tuple[NumaNode, ...], str]:
    folder = root / "sys/devices/system/node"
    ids = sorted(int(path.name[4:]) for path in folder.glob("node[0-9]*"))
    if ids:
        nodes = tuple(_read_numa_node(folder / f"node{node}", node, processor) for node in ids)
        return nodes, "memory: /sys/devices/system/node"
    total, free = read_meminfo(root / "proc/meminfo")
    evidence = "the kernel shows no NUMA nodes, so all memory counts as one"
    whole = NumaNode(0, cpus, total, free, "unknown", evidence)
    return (whole,), "memory: /proc/meminfo, as /sys/devices/system/node is missing"


def _read_numa_node(folder: Path, node: int, processor: dict[str, str]) -> NumaNode:
    cpus = read_cpus(folder)
    total, free = read_meminfo(folder / "meminfo")
    kind, evidence = memory_kind(folder, bool(cpus), processor)
    return NumaNode(node, cpus, total, free, kind, evidence)


def _group_cores(threads: dict[int, _Thread], nodes: tuple[NumaNode, ...]) -> tuple[Core, ...]:
    node_of = {cpu: node.id for node in nodes for cpu in node.cpus}
    members: defaultdict[_Thread, list[int]] = defaultdict(list)
    for cpu in sorted(threads):
        members[threads[cpu]].append(cpu)
    cores = (
        Core(thread.core, thread.package, node_of.get(cpus[0], nodes[0].id), tuple(cpus))
        for thread, cpus in members.items()
    )
    return tuple(sorted(cores, key=lambda core: (core.package, core.numa_node, core.cpus)))
