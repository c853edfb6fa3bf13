"""Machines made of small files: the sysfs and procfs trees that the tests read.

`machine_files(name)` writes one of three named machines. `write_machine(root, ...)` writes any
other; all arguments but `root` are by name and have defaults (one package of four cores):

processor   "knl" | "knm" | "xeon-max" | "xeon" | "amd" | "" (no name), or fields of /proc/cpuinfo
packages    number of packages; the clusters are dealt out to them evenly, in order
clusters    cores of each node with cpus, such as (18, 18, 16, 16)
threads     hardware threads per core
adjacent    numbers the threads of a core one after another; else all first threads come first
tile        cores that share an L2
l3          who shares an L3: "package" | "node" | a number of cores | None: there is none
nodes       ids of the nodes with cpus, by cluster; default 0, 1, 2 ...
megabytes   memory of each node with cpus: one number, or one for each; a quarter of it is free
memories    {node without cpus: its megabytes}
near        {node without cpus: node whose memory it is}; default: by order, round and round
slit        "knl" (10/21/31/41) | "xeon-max" (10/12/21, HBM 13/14/23) | "flat" (10/20)
            | rows in the order of the node ids | None: the files are missing
bandwidth   {node: MB/s as its initiator sees it}; the files exist only for nodes listed here
latency     {node: ns}, likewise
initiators  {node: initiators}, if they are not the node itself or `near`
access      the classes of initiators that the kernel shows, default ("access0", "access1")
tiers       {number of a memory tier: its nodes}
side_cache  {node: bytes of the memory-side cache in front of it}
huge_pages  {node: {kilobytes of a page: (total, free)}}
offline     cpus that are there and switched off

    machine = write_machine(tmp_path, processor="knl", clusters=(18, 18, 16, 16), threads=4,
                            tile=2, memories=dict.fromkeys(range(4, 8), 4096),
                            near={4: 1, 5: 2, 6: 3, 7: 0}, slit="knl")
    topology = read_topology(machine.root)

Both return a `MachineTree`, for further changes.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

SYSTEM = "sys/devices/system"


def _intel(model: int, name: str, flags: str) -> dict[str, str]:
    family = {"vendor_id": "GenuineIntel", "cpu family": "6", "model": str(model)}
    return {**family, "model name": f"Intel(R) {name}", "flags": f"sse avx avx2 fma {flags}"}


_PHI, _XEON = "avx512f avx512pf avx512er avx512cd", "avx512f avx512vl avx512bw amx_tile"
PROCESSORS = {
    "knl": _intel(87, "Xeon Phi(TM) CPU 7250 @ 1.40GHz", _PHI),
    "knm": _intel(133, "Xeon Phi(TM) CPU 7295 @ 1.50GHz", _PHI),
    "xeon-max": _intel(143, "Xeon(R) CPU Max 9480", _XEON),
    "xeon": _intel(143, "Xeon(R) Platinum 8480+", _XEON),
    "amd": {
        "vendor_id": "AuthenticAMD",
        "cpu family": "25",
        "model": "17",
        "model name": "AMD EPYC 9654 96-Core Processor",
        "flags": "sse avx avx2 fma avx512f",
    },
    "": {},
}


@dataclass
class MachineTree:
    """Writes what a kernel would show of a machine under `root`."""

    root: Path
    processors: dict[int, dict[str, str]] = field(default_factory=dict)
    folders: set[Path] = field(default_factory=set)
    caches: Counter[int] = field(default_factory=Counter)

    def write(self, path: str, text: str) -> None:
        """Write one kernel file, with the newline that the kernel ends it with."""
        file = self.root / path
        if file.parent not in self.folders:
            file.parent.mkdir(parents=True, exist_ok=True)
            self.folders.add(file.parent)
        file.write_text(text + "\n", encoding="utf-8")

    def link(self, path: str, target: str) -> None:
        """Make `path` a symbolic link to `target`, both relative to the root."""
        link = self.root / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(self.root / target, link.parent))

    def remove(self, path: str) -> None:
        """Hide one kernel file, as containers do."""
        (self.root / path).unlink()

    def add_core(
        self, package: int, core_id: int, cpus: Sequence[int], *, last: bool = True, **cpuinfo: str
    ) -> None:
        """Add a core with hardware threads `cpus`; `cpuinfo` are further fields of its blocks.

        ``/proc/cpuinfo`` and the list of online cpus are written only with `last`.
        """
        for cpu in cpus:
            folder = f"{SYSTEM}/cpu/cpu{cpu}/topology"
            self.write(f"{folder}/core_id", str(core_id))
            self.write(f"{folder}/physical_package_id", str(package))
            self.write(f"{folder}/thread_siblings_list", _listed(cpus))
            numbers = {"physical id": str(package), "core id": str(core_id)}
            self.processors[cpu] = {"processor": str(cpu), **cpuinfo, **numbers}
        if last:
            self.write_cpuinfo()

    def write_cpuinfo(self) -> None:
        """Write ``/proc/cpuinfo`` and the list of online cpus."""
        blocks = (self.processors[cpu] for cpu in sorted(self.processors))
        texts = ("".join(f"{k}\t: {v}\n" for k, v in block.items()) for block in blocks)
        self.write("proc/cpuinfo", "\n".join(texts))
        self.write(f"{SYSTEM}/cpu/online", _listed(self.processors))

    def add_cache(
        self, cpus: Sequence[int], level: int, kilobytes: int, kind: str = "Unified"
    ) -> None:
        """Add a cache that `cpus` share, as the next index of each of them."""
        for cpu in cpus:
            folder = f"{SYSTEM}/cpu/cpu{cpu}/cache/index{self.caches[cpu]}"
            self.caches[cpu] += 1
            self.write(f"{folder}/level", str(level))
            self.write(f"{folder}/type", kind)
            self.write(f"{folder}/size", f"{kilobytes}K")
            self.write(f"{folder}/coherency_line_size", "64")
            self.write(f"{folder}/shared_cpu_list", _listed(cpus))

    def add_gpu(self, address: str, node: int, cpus: Sequence[int], **files: str) -> None:
        """Add a GPU: an A100, unless `files` of its folder (`class_` for class) say otherwise."""
        told = {"vendor": "0x10de", "class_": "0x030200", "device": "0x20b0", **files}
        told |= {"numa_node": str(node), "local_cpulist": _listed(cpus)}
        for name, text in told.items():
            self.write(f"sys/bus/pci/devices/{address}/{name.rstrip('_')}", text)

    def set_offline(self, cpus: Iterable[int]) -> None:
        """Switch cpus off, after all else is written: the kernel keeps only their folders."""
        for cpu in cpus:
            del self.processors[cpu]
            folder = self.root / f"{SYSTEM}/cpu/cpu{cpu}"
            for file in sorted(folder.rglob("*"), reverse=True):
                file.rmdir() if file.is_dir() else file.unlink()
        self.write_cpuinfo()
        self.write(f"{SYSTEM}/cpu/offline", _listed(cpus))

    def add_node(self, node: int, cpulist: str, megabytes: int) -> None:
        """Add a NUMA node with a quarter of its memory free."""
        folder = f"{SYSTEM}/node/node{node}"
        self.write(f"{folder}/cpulist", cpulist)
        total = f"Node {node} MemTotal:       {megabytes * 1024} kB\n"
        self.write(f"{folder}/meminfo", f"{total}Node {node} MemFree:        {megabytes * 256} kB")

    def add_bandwidth(
        self, node: int, access: str, initiator: int, megabytes: int, latency: int | None = None
    ) -> None:
        """Add what the HMAT table says of `node` as seen from the cpus of `initiator`."""
        folder = f"{SYSTEM}/node/node{node}/{access}/initiators"
        for name in ("read_bandwidth", "write_bandwidth"):
            self.write(f"{folder}/{name}", str(megabytes))
        for name in ("read_latency", "write_latency") if latency is not None else ():
            self.write(f"{folder}/{name}", str(latency))
        self.link(f"{folder}/node{initiator}", f"{SYSTEM}/node/node{initiator}")

    def add_tier(self, tier: int, nodes: Iterable[int]) -> None:
        """Put nodes into one of the kernel's memory tiers: lower is faster."""
        self.write(f"sys/devices/virtual/memory_tiering/memory_tier{tier}/nodelist", _listed(nodes))

    def add_side_cache(self, node: int, size_bytes: int) -> None:
        """Put a direct-mapped memory-side cache in front of a node."""
        folder = f"{SYSTEM}/node/node{node}/memory_side_cache/index1"
        fields = {"size": size_bytes, "line_size": 64, "indexing": 0, "write_policy": 0}
        for name, value in fields.items():
            self.write(f"{folder}/{name}", str(value))

    def add_huge_pages(self, node: int, kilobytes: int, total: int, free: int) -> None:
        """Add a node's pool of huge pages of one size."""
        folder = f"{SYSTEM}/node/node{node}/hugepages/hugepages-{kilobytes}kB"
        self.write(f"{folder}/nr_hugepages", str(total))
        self.write(f"{folder}/free_hugepages", str(free))

    def add_dax(
        self, name: str, node: int, behind: str, *, online: bool = True, size_bytes: int = 0
    ) -> None:
        """Add a memory device as node `node`; `behind` as in sysfs: "hmem.0", "ndbus0" ..."""
        device = f"sys/devices/platform/{behind}/{name}"
        self.write(f"{device}/target_node", str(node))
        self.write(f"{device}/size", str(size_bytes))
        self.link(f"sys/bus/dax/devices/{name}", device)
        if online:
            self.link(f"sys/bus/dax/drivers/kmem/{name}", device)


def _listed(numbers: Iterable[int]) -> str:
    return ",".join(map(str, sorted(numbers)))


def _write_machine(
    root: Path,
    *,
    processor: str | Mapping[str, str] = "xeon",
    packages: int = 1,
    clusters: Sequence[int] = (4,),
    threads: int = 1,
    adjacent: bool = False,
    tile: int = 1,
    l3: str | int | None = None,
    nodes: Sequence[int] = (),
    megabytes: int | Sequence[int] = 24_576,
    memories: Mapping[int, int] | None = None,
    near: Mapping[int, int] | None = None,
    slit: str | Sequence[Sequence[int]] | None = None,
    bandwidth: Mapping[int, int] | None = None,
    latency: Mapping[int, int] | None = None,
    initiators: Mapping[int, Sequence[int]] | None = None,
    access: Sequence[str] = ("access0", "access1"),
    tiers: Mapping[int, Sequence[int]] | None = None,
    side_cache: Mapping[int, int] | None = None,
    huge_pages: Mapping[int, Mapping[int, tuple[int, int]]] | None = None,
    offline: Sequence[int] = (),
) -> MachineTree:
    machine = MachineTree(root)
    nodes = nodes or range(len(clusters))
    memories = memories or {}
    near = near or {node: nodes[place % len(nodes)] for place, node in enumerate(memories)}
    package_of = {node: place * packages // len(nodes) for place, node in enumerate(nodes)}
    cores = _write_cores(machine, processor, package_of, clusters, threads, adjacent)
    _write_caches(machine, cores, package_of, tile, l3)
    for place, node in enumerate(nodes):
        size = megabytes if isinstance(megabytes, int) else megabytes[place]
        shown = [cpu for core in cores[node] for cpu in core if cpu not in offline]
        machine.add_node(node, _listed(shown), size)
    for node, size in memories.items():
        machine.add_node(node, "", size)
    _write_distances(machine, slit, package_of, near)
    for node in sorted({*(bandwidth or {}), *(latency or {})}):
        for initiator in (initiators or {}).get(node, (near.get(node, node),)):
            for name in access:
                speed, delay = (bandwidth or {}).get(node, 0), (latency or {}).get(node, 0)
                machine.add_bandwidth(node, name, initiator, speed, delay)
    for tier, members in (tiers or {}).items():
        machine.add_tier(tier, members)
    for node, size in (side_cache or {}).items():
        machine.add_side_cache(node, size)
    for node, pools in (huge_pages or {}).items():
        for kilobytes, (total, free) in pools.items():
            machine.add_huge_pages(node, kilobytes, total, free)
    if offline:
        machine.set_offline(offline)
    return machine


def _write_cores(
    machine: MachineTree,
    processor: str | Mapping[str, str],
    package_of: Mapping[int, int],
    clusters: Sequence[int],
    threads: int,
    adjacent: bool,
) -> dict[int, list[list[int]]]:
    """Write all cores; returns the cpus of each core of each node."""
    fields = PROCESSORS[processor] if isinstance(processor, str) else processor
    total, core_ids = sum(clusters), dict.fromkeys(package_of.values(), 0)
    cores: dict[int, list[list[int]]] = {node: [] for node in package_of}
    first = 0
    for node, count in zip(package_of, clusters, strict=True):
        package = package_of[node]
        for _ in range(count):
            strided = [first + total * thread for thread in range(threads)]
            together = [first * threads + thread for thread in range(threads)]
            cpus = together if adjacent else strided
            machine.add_core(package, core_ids[package], cpus, last=False, **fields)
            cores[node].append(cpus)
            core_ids[package] += 1
            first += 1
    machine.write_cpuinfo()
    return cores


def _write_caches(
    machine: MachineTree,
    cores: Mapping[int, list[list[int]]],
    package_of: Mapping[int, int],
    tile: int,
    l3: str | int | None,
) -> None:
    packages: dict[int, list[list[int]]] = {}
    for node, members in cores.items():
        packages.setdefault(package_of[node], []).extend(members)
        for core in members:
            machine.add_cache(core, 1, 32, "Data")
            machine.add_cache(core, 1, 32, "Instruction")
        for group in _groups(members, tile):
            machine.add_cache(group, 2, 1024)
    holders = (
        {"node": cores, "package": packages}.get(l3, packages) if isinstance(l3, str) else cores
    )
    for members in holders.values() if l3 is not None else ():
        for group in _groups(members, l3 if isinstance(l3, int) else len(members)):
            machine.add_cache(group, 3, 32_768)


def _groups(cores: Sequence[Sequence[int]], size: int) -> list[list[int]]:
    starts = range(0, len(cores), size)
    return [[cpu for core in cores[start : start + size] for cpu in core] for start in starts]


def _write_distances(
    machine: MachineTree,
    slit: str | Sequence[Sequence[int]] | None,
    package_of: Mapping[int, int],
    near: Mapping[int, int],
) -> None:
    ids = sorted([*package_of, *near])
    if slit is None:
        return
    if isinstance(slit, str):
        distance = {"knl": _knl_distance, "xeon-max": _xeon_max_distance, "flat": _flat_distance}
        slit = [[distance[slit](a, b, package_of, near) for b in ids] for a in ids]
    for node, row in zip(ids, slit, strict=True):
        machine.write(f"{SYSTEM}/node/node{node}/distance", " ".join(map(str, row)))


def _knl_distance(a: int, b: int, package_of: Mapping[int, int], near: Mapping[int, int]) -> int:
    if a == b:
        return 10
    if a in package_of and b in package_of:
        return 21
    return 31 if near.get(a) == b or near.get(b) == a else 41


def _xeon_max_distance(
    a: int, b: int, package_of: Mapping[int, int], near: Mapping[int, int]
) -> int:
    if a == b:
        return 10
    if near.get(a) == b or near.get(b) == a:
        return 13
    same_package = package_of[near.get(a, a)] == package_of[near.get(b, b)]
    if a in package_of and b in package_of:
        return 12 if same_package else 21
    return 14 if same_package else 23


def _flat_distance(a: int, b: int, package_of: Mapping[int, int], near: Mapping[int, int]) -> int:
    return 10 if a == b else 20


def _knights_landing(root: Path) -> MachineTree:
    """4 clusters of 2 cores with 4 threads each, and 4 MCDRAM nodes without cpus."""
    memories = dict.fromkeys(range(4, 8), 4096)
    return _write_machine(
        root, processor="knl", clusters=(2, 2, 2, 2), threads=4, memories=memories
    )


def _two_sockets(root: Path) -> MachineTree:
    """2 packages of 3 cores with 2 threads each; both packages number their cores from 0."""
    name = {"vendor_id": "GenuineIntel"}
    return _write_machine(
        root, processor=name, packages=2, clusters=(3, 3), threads=2, megabytes=1024
    )


def _small_vm(root: Path) -> MachineTree:
    """2 cores with one thread each on one node."""
    name = {"vendor_id": "AuthenticAMD", "flags": "sse avx2 fma"}
    return _write_machine(root, processor=name, clusters=(2,), megabytes=512)


_MACHINES = {
    "knights_landing": _knights_landing,
    "two_sockets": _two_sockets,
    "small_vm": _small_vm,
}


@pytest.fixture
def machine_files(tmp_path: Path) -> Callable[[str], MachineTree]:
    """A function that writes the named machine and returns its files for further changes."""
    return lambda name: _MACHINES[name](tmp_path / name)


@pytest.fixture
def write_machine() -> Callable[..., MachineTree]:
    """The function that writes any machine: see the top of this file for its arguments."""
    return _write_machine


@pytest.fixture
def shared_topologies() -> Path:
    """Descriptions of real machines by others, which are not part of this project."""
    folder = Path(__file__).parents[3] / "shared/topologies"
    if not folder.is_dir():
        pytest.skip(f"{folder} is missing: the machines that others described lie there")
    return folder
