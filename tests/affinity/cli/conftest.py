"""Machines built by hand, so that what is shown can be checked against what is known."""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest

from affinity.placement.plan import MemoryPlan, Placement, Plan
from affinity.topology import Cache, Core, Modes, NumaNode, SideCache, Topology

GIB = 2**30

_MARK = "AFFINITY_TEST_MARK"


class Started:
    """A program of this package, and all that came of it: known by a mark in environments."""

    def __init__(self) -> None:
        self.mark = uuid.uuid4().hex
        self._started: list[Popen[str]] = []

    def __call__(self, *words: str, **environment: str) -> Popen[str]:
        """Start Python with these words, its input, output and errors at our end of pipes."""
        process = Popen(
            [sys.executable, *words],
            env={**os.environ, _MARK: self.mark, **environment},
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def alive(self) -> dict[int, str]:
        """Command lines of all processes with the mark, but those that have ended already."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if self.mark.encode() in (folder / "environ").read_bytes():
                    command = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(folder.name)] = command.decode(errors="replace")
        return found

    def all_there(self, count: int, seconds: float = 20) -> bool:
        """Whether so many are there, or soon: one that is just being started has no mark yet."""
        deadline = time.monotonic() + seconds
        while len(found := self.alive()) < count:
            if time.monotonic() > deadline:
                raise AssertionError(f"{len(found)} of {count} are there: {found}")
            time.sleep(0.02)
        return True

    def all_gone(self, seconds: float = 20) -> bool:
        """Whether nothing is left, or ends soon."""
        deadline = time.monotonic() + seconds
        while left := self.alive():
            if time.monotonic() > deadline:
                raise AssertionError(f"still there: {left}")
            time.sleep(0.02)
        return True

    def end(self) -> None:
        """Kill what a failed test leaves, and close our ends."""
        for pid in self.alive():
            with suppress(ProcessLookupError):
                os.kill(pid, 9)
        for process in self._started:
            process.communicate()


@pytest.fixture
def start() -> Iterator[Started]:
    """Starts programs, and ends them with the test."""
    started = Started()
    yield started
    started.end()


@pytest.fixture
def two_cores() -> None:
    """For tests with two workers."""
    from affinity import physical_cores, read_allowed, read_topology

    if len(physical_cores(read_topology(), read_allowed().cpus)) < 2:
        pytest.skip("two workers need two cores")


@pytest.fixture
def knights_landing() -> Topology:
    """68 cores in SNC-4, flat: clusters of 18, 18, 16 and 16; MCDRAM is not in order of id."""
    sizes = (18, 18, 16, 16)
    home = [node for node, size in enumerate(sizes) for _ in range(size)]
    cores = tuple(
        Core(core, 0, home[core], (core, core + 68, core + 136, core + 204)) for core in range(68)
    )
    tiles = [cores[first].cpus + cores[first + 1].cpus for first in range(0, 68, 2)]
    cluster = [tuple(cpu for c in cores if c.numa_node == n for cpu in c.cpus) for n in range(4)]
    dram = [
        NumaNode(n, tuple(sorted(cluster[n])), 24 * GIB, 23 * GIB, "dram", "it has cpus", (n,))
        for n in range(4)
    ]
    owner = {4: 1, 5: 2, 6: 3, 7: 0}
    hbm = [
        NumaNode(
            id=n,
            cpus=(),
            memory_bytes=4 * GIB,
            free_bytes=4 * GIB,
            kind="hbm",
            evidence="memory without cpus on a Xeon Phi is its MCDRAM",
            near=(owner[n],),
            near_evidence=f"distance 31 to node {owner[n]}, 41 to others",
            bandwidth_mb_per_second=90000,
        )
        for n in range(4, 8)
    ]
    return Topology(
        model="Intel(R) Xeon Phi(TM) CPU 7250 @ 1.40GHz",
        vendor="GenuineIntel",
        isa=("avx512f", "avx512er"),
        cores=cores,
        numa_nodes=(*dram, *hbm),
        sources=("sys/devices/system/node", "proc/cpuinfo"),
        caches=tuple(Cache(2, "unified", 2**20, 64, tuple(sorted(tile))) for tile in tiles),
        distances=tuple(tuple(_knights_distance(a, b, owner) for b in range(8)) for a in range(8)),
        modes=Modes("SNC-4", "four nodes with cpus", "flat", "MCDRAM nodes of 16 GiB in all"),
    )


def _knights_distance(a: int, b: int, owner: dict[int, int]) -> int:
    if a == b:
        return 10
    if a < 4 and b < 4:
        return 21
    if owner.get(a) == b or owner.get(b) == a:
        return 31
    return 41


@pytest.fixture
def knights_plan(knights_landing: Topology) -> Plan:
    """One worker per cluster, its heap first in its MCDRAM; core 0's tile kept for the system."""
    owner = {0: 7, 1: 4, 2: 5, 3: 6}
    clusters = [[c for c in knights_landing.cores[2:] if c.numa_node == n] for n in range(4)]
    return Plan(
        workers=tuple(
            Placement(
                rank=rank,
                cpus=tuple(sorted(cpu for core in cores for cpu in core.cpus)),
                threads=len(cores),
                numa_nodes=(rank,),
                cores=tuple(core.cpus for core in cores),
                memory=MemoryPlan(
                    policy="spill",
                    mode="preferred",
                    nodes=(owner[rank],),
                    order=(owner[rank], rank),
                    hbm=True,
                    budget_bytes=4 * GIB,
                    need_bytes=5 * GIB,
                    expected=((owner[rank], 4 * GIB), (rank, 1 * GIB)),
                    reasons=("the MCDRAM of its cluster",),
                ),
                reasons=(f"all tiles of node {rank} that are left",),
            )
            for rank, cores in enumerate(clusters)
        ),
        os_cpus=tuple(sorted(cpu for core in knights_landing.cores[:2] for cpu in core.cpus)),
        notes=("1.0 GiB of each worker spills into DRAM",),
    )


@pytest.fixture
def xeon_max() -> Topology:
    """Two packages of 52 cores with an L3 each, DRAM and flat HBM with figures from HMAT."""
    cores = tuple(Core(n % 52, n // 52, n // 52, (n, n + 104)) for n in range(104))
    halves = [tuple(cpu for c in cores if c.package == p for cpu in c.cpus) for p in range(2)]
    dram = [
        NumaNode(
            n, tuple(sorted(halves[n])), 504 * GIB, 486 * GIB, "dram", "it has cpus", (n,), "",
            260000, 120, "HMAT",
        )
        for n in range(2)
    ]  # fmt: skip
    hbm = [
        NumaNode(
            n, (), 64 * GIB, 63 * GIB, "hbm", "2.7 times the bandwidth of its cores' DRAM",
            (n - 2,), f"initiator node {n - 2}", 700000, 130, "HMAT", 1,
        )
        for n in (2, 3)
    ]  # fmt: skip
    return Topology(
        model="Intel(R) Xeon(R) CPU Max 9470C",
        vendor="GenuineIntel",
        isa=("avx512f", "amx_tile"),
        cores=cores,
        numa_nodes=(*dram, *hbm),
        sources=("sys/devices/system/node",),
        caches=tuple(Cache(3, "unified", 105 * 2**20, 64, tuple(sorted(h))) for h in halves),
        distances=((10, 21, 13, 23), (21, 10, 23, 13), (13, 23, 10, 23), (23, 13, 23, 10)),
        modes=Modes("one node per package", "two packages, two nodes", "flat", "HBM nodes"),
    )


@pytest.fixture
def cache_mode() -> Topology:
    """One package whose HBM is a cache of its DRAM."""
    cache = SideCache(64 * GIB, 64, "direct", "memory_side_cache/index1")
    return Topology(
        model="Intel(R) Xeon(R) CPU Max 9460",
        vendor="GenuineIntel",
        isa=(),
        cores=tuple(Core(n, 0, 0, (n,)) for n in range(4)),
        numa_nodes=(
            NumaNode(
                0, (0, 1, 2, 3), 256 * GIB, 200 * GIB, "dram", "it has cpus", (0,),
                side_caches=(cache,),
            ),
        ),
        sources=("sys/devices/system/node",),
    )  # fmt: skip


@pytest.fixture
def small_vm() -> Topology:
    """One node, two cores, nothing else known."""
    return Topology(
        model="unknown",
        vendor="unknown",
        isa=(),
        cores=(Core(0, 0, 0, (0,)), Core(1, 0, 0, (1,))),
        numa_nodes=(NumaNode(0, (0, 1), 2 * GIB, GIB, "dram", "it has cpus", (0,)),),
        sources=("sys/devices/system/cpu",),
        notes=("sysfs hides the caches",),
    )


@pytest.fixture
def xeon_max_files(write_machine: Callable[..., Any], tmp_path: Path) -> str:
    """Files of two packages with 4 cores each and HBM, 8 GiB of DRAM and 1 GiB of HBM for each."""
    root = tmp_path / "xeon-max"
    write_machine(
        root,
        processor="xeon-max",
        packages=2,
        clusters=(4, 4),
        threads=2,
        megabytes=8192,
        memories={2: 1024, 3: 1024},
        slit="xeon-max",
    )
    return str(root)


@pytest.fixture
def numactl_text(tmp_path: Path) -> str:
    """A text of numactl -H about two nodes of 2 cpus and one without."""
    file = tmp_path / "numactl.txt"
    file.write_text(
        "available: 3 nodes (0-2)\nnode 0 cpus: 0 1\nnode 0 size: 4096 MB\nnode 0 free: 2048 MB\n"
        "node 1 cpus: 2 3\nnode 1 size: 4096 MB\nnode 1 free: 2048 MB\n"
        "node 2 cpus:\nnode 2 size: 1024 MB\nnode 2 free: 1024 MB\n"
        "node distances:\nnode 0 1 2\n 0: 10 20 17\n 1: 20 10 28\n 2: 17 28 10\n",
        encoding="utf-8",
    )
    return str(file)
