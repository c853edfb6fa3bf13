"""Groups cores into tiles that no placement cuts, in the order in which they are given out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from affinity.topology import Core, Topology

LARGEST_TILE = 4
"""Cores on one L2 that still stay together: 2 on Xeon Phi, 4 in the modules of Intel's E-cores.

With more of them (A64FX: 12), or with all of a package on one L2, this is a last-level cache, whose
cores have to be shared out.
"""


@dataclass(frozen=True, slots=True)
class Tile:
    """Allowed cores that share an L2 and go to one worker together; on most machines one core.

    `package`, `numa_node`, `l2` and `l3` tell where it sits; the caches have numbers of their own.
    """

    cores: tuple[Core, ...]
    package: int
    numa_node: int
    l2: int
    l3: int


def tiles_of(topology: Topology, cores: Iterable[Core]) -> tuple[Tile, ...]:
    """Group `cores` (as narrowed to their allowed cpus) by package, NUMA node, L3 and tile."""
    tile_of, l2_of = _numbers(uncut(topology)), _numbers(topology.tiles)
    l3_of = _numbers(topology.l3_groups) if has_cache(topology, 3) else {}
    groups: defaultdict[int, list[Core]] = defaultdict(list)
    for core in cores:
        groups[tile_of[core.cpus[0]]].append(core)
    tiles = []
    for _, group in sorted(groups.items()):
        first, cpu = group[0], group[0].cpus[0]
        tiles.append(
            Tile(tuple(group), first.package, first.numa_node, l2_of[cpu], l3_of.get(cpu, 0))
        )
    return tuple(sorted(tiles, key=lambda tile: (tile.package, tile.numa_node, tile.l3)))


def uncut(topology: Topology) -> Iterator[tuple[Core, ...]]:
    """All cores of the machine in the groups that are never cut."""
    in_package = Counter(core.package for core in topology.cores)
    for group in topology.tiles:
        if len(group) <= LARGEST_TILE and len(group) < in_package[group[0].package]:
            yield group
        else:
            yield from ((core,) for core in group)


def narrowed(cores: Iterable[Core], cpus: Iterable[int]) -> tuple[Core, ...]:
    """The cores with at least one of these cpus, each with those of them only."""
    wanted = frozenset(cpus)
    found = (
        core
        if wanted.issuperset(core.cpus)
        else replace(core, cpus=tuple(cpu for cpu in core.cpus if cpu in wanted))
        for core in cores
    )
    return tuple(core for core in found if core.cpus)


def single(core: Core) -> Tile:
    """A core alone, for who wants a worker on each core whatever it shares."""
    return Tile((core,), core.package, core.numa_node, 0, 0)


def has_cache(topology: Topology, level: int) -> bool:
    """Whether the machine tells of a cache of this level."""
    return any(cache.level == level and cache.kind != "instruction" for cache in topology.caches)


def _numbers(groups: Iterable[tuple[Core, ...]]) -> dict[int, int]:
    return {
        cpu: number for number, group in enumerate(groups) for core in group for cpu in core.cpus
    }
