"""Machines made by hand: topologies as the readers would conclude them.

`machine(...)` takes, by name, with defaults (one node of four cores):

nodes      cores of each NUMA node with cpus, such as (18, 18, 16, 16); their ids are 0, 1, 2 ...
packages   the nodes are dealt out to so many packages, in order
threads    hardware threads per core; all first threads are numbered before all second ones
tile, l3   so many cores of a node, one after another, share an L2 or an L3; 0: no such cache
gib        memory of each node with cpus in GiB, all of it free
hbm        {id of a node without cpus: the node whose HBM it is}
hbm_gib    memory of each of these, all of it free
distances  "knl": 10/21, HBM 31/41 | "max": 10/12/21, HBM 13/14/23 | None: not known
changes    {node: {field of NumaNode: another value}}
model      of the processor
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import pytest

from affinity.process.allowed import AllowedResources
from affinity.topology import Cache, Core, NumaNode, Topology

GIB = 1024**3


def _cores(nodes: Sequence[int], packages: int, threads: int) -> tuple[Core, ...]:
    total = sum(nodes)
    homes = [node for node, count in enumerate(nodes) for _ in range(count)]
    return tuple(
        Core(at, home * packages // len(nodes), home, tuple(at + total * t for t in range(threads)))
        for at, home in enumerate(homes)
    )


def _caches(cores: Sequence[Core], tile: int, l3: int) -> tuple[Cache, ...]:
    by_node = [list(group) for _, group in groupby(cores, key=lambda core: core.numa_node)]
    return tuple(
        Cache(level, "unified", 1 << 20, 64, tuple(sorted(c for core in group for c in core.cpus)))
        for level, width in ((2, tile), (3, l3))
        if width
        for node in by_node
        for at in range(0, len(node), width)
        for group in [node[at : at + width]]
    )


def _distance(style: str, one: NumaNode, other: NumaNode, package: Mapping[int, int]) -> int:
    if one.id == other.id:
        return 10
    home, there = (*one.near, *other.near)
    if one.kind == other.kind == "dram":
        return 21 if style == "knl" or package[home] != package[there] else 12
    if style == "knl":
        return 31 if home == there else 41
    return 13 if home == there else 14 if package[home] == package[there] else 23


def build(
    nodes: Sequence[int] = (4,),
    packages: int = 1,
    threads: int = 1,
    tile: int = 0,
    l3: int = 0,
    gib: float = 64,
    hbm: Mapping[int, int] | None = None,
    hbm_gib: float = 4,
    distances: str | None = None,
    changes: Mapping[int, Mapping[str, Any]] | None = None,
    model: str = "made up",
) -> Topology:
    cores = _cores(nodes, packages, threads)
    memories = [
        NumaNode(
            node, tuple(sorted(c for core in cores if core.numa_node == node for c in core.cpus)),
            int(gib * GIB), int(gib * GIB), "dram", "it has cpus", near=(node,),
        )
        for node in range(len(nodes))
    ]  # fmt: skip
    for node, near in (hbm or {}).items():
        size = int(hbm_gib * GIB)
        memories.append(
            NumaNode(node, (), size, size, "hbm", "the user says so", (near,), "it was told")
        )
    package = {core.numa_node: core.package for core in cores}
    rows = tuple(
        tuple(_distance(distances, one, other, package) for other in memories) for one in memories
    ) if distances else ()  # fmt: skip
    changed = tuple(replace(node, **(changes or {}).get(node.id, {})) for node in memories)
    return Topology(
        model, "made up", (), cores, changed, (), caches=_caches(cores, tile, l3), distances=rows
    )


@pytest.fixture(scope="session")
def machine() -> Callable[..., Topology]:
    """The function that builds a machine: see the top of this file."""
    return build


@pytest.fixture(scope="session")
def phi(machine: Callable[..., Topology]) -> Topology:
    """Xeon Phi 7250 in SNC-4 and flat mode; MCDRAM nodes are not in the order of their clusters."""
    return machine(
        nodes=(18, 18, 16, 16), threads=4, tile=2, gib=24, hbm={4: 1, 5: 2, 6: 3, 7: 0},
        hbm_gib=4, distances="knl", model="Intel(R) Xeon Phi(TM) CPU 7250 @ 1.40GHz",
    )  # fmt: skip


@pytest.fixture(scope="session")
def xeon_max(machine: Callable[..., Topology]) -> Topology:
    """Two Xeon Max 9470C in flat mode, one node each (Aurora): HBM node 2 is that of node 0."""
    return machine(
        nodes=(52, 52), packages=2, threads=2, l3=52, gib=512, hbm={2: 0, 3: 1}, hbm_gib=64,
        distances="max", model="Intel(R) Xeon(R) CPU Max 9470C",
    )  # fmt: skip


@pytest.fixture(scope="session")
def all_of() -> Callable[[Topology], AllowedResources]:
    """Permission to use all cpus and memories of a machine."""
    return lambda topology: AllowedResources(topology.cpus)
