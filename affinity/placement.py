"""Which cpus each worker gets: whole cores, close together, the same number for all if possible."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from affinity.cpulist import format_cpulist
from affinity.errors import PlacementError
from affinity.topology import Core, Topology

ALIGNED_SHARE = 0.9
"""Workers keep to whole NUMA nodes where the smallest gets this part of an even share of cores.

Below it the slowest worker, for whom all wait, would cost more than memory that is further away.
"""


@dataclass(frozen=True, slots=True)
class Placement:
    """The place of one worker: `cpus` it may run on and `threads`, its number of physical cores.

    `cpus` are OS ids, all the allowed hardware threads of its cores; `numa_nodes` are the nodes
    that its cores belong to; `cores` are its cpus core by core, empty if its threads may roam.
    """

    rank: int
    cpus: tuple[int, ...]
    threads: int
    numa_nodes: tuple[int, ...]
    cores: tuple[tuple[int, ...], ...] = ()


def physical_cores(topology: Topology, allowed: Iterable[int]) -> tuple[Core, ...]:
    """The cores with at least one allowed cpu, each with its allowed cpus only.

    Raises PlacementError if no cpu is allowed, or one is allowed that the topology does not have.
    """
    wanted = frozenset(allowed)
    if unknown := wanted.difference(topology.cpus):
        raise PlacementError(
            f"cpus {format_cpulist(unknown)} are allowed, but this machine has only "
            f"{format_cpulist(topology.cpus)}: read the topology on the machine that runs"
        )
    if not wanted:
        raise PlacementError("no cpus are allowed, so no worker can be placed: widen the cpuset")
    narrowed = (
        replace(core, cpus=tuple(cpu for cpu in core.cpus if cpu in wanted))
        for core in topology.cores
    )
    return tuple(core for core in narrowed if core.cpus)


def place_workers(
    topology: Topology, allowed_cpus: Iterable[int], workers: int
) -> tuple[Placement, ...]:
    """Share the allowed cores among `workers`, rank after rank in NUMA order; no core is cut.

    Every allowed cpu goes to exactly one worker. Groups differ by at most one core, or by a little
    more (`ALIGNED_SHARE`) where that keeps workers from spreading over NUMA nodes.
    Raises PlacementError if there are fewer cores than workers.
    """
    allowed = tuple(allowed_cpus)
    cores = physical_cores(topology, allowed)
    if workers < 1:
        raise PlacementError(f"{workers} workers asked for: use --workers 1 or more")
    if workers > len(cores):
        raise PlacementError(_too_many_workers(workers, allowed, len(cores)))
    groups = _share(cores, workers, smallest=ALIGNED_SHARE * (len(cores) // workers))
    return tuple(_placement(rank, group) for rank, group in enumerate(groups))


def _placement(rank: int, cores: tuple[Core, ...]) -> Placement:
    return Placement(
        rank=rank,
        cpus=tuple(sorted(cpu for core in cores for cpu in core.cpus)),
        threads=len(cores),
        numa_nodes=tuple(sorted({core.numa_node for core in cores})),
        cores=tuple(core.cpus for core in cores),
    )


def _share(cores: tuple[Core, ...], workers: int, smallest: float) -> list[tuple[Core, ...]]:
    """Cut at the NUMA boundary that serves both sides best, again in each side, then evenly."""
    candidates = [
        (min(cut // left, (len(cores) - cut) // (workers - left)), cut, left)
        for cut in _numa_boundaries(cores)
        for left in [min(max(round(workers * cut / len(cores)), 1), workers - 1)]
        if workers > 1
    ]
    least, cut, left = max(candidates, default=(0, 0, 0))
    if least >= smallest:
        return [
            *_share(cores[:cut], left, smallest),
            *_share(cores[cut:], workers - left, smallest),
        ]
    return _cut_evenly(cores, workers)


def _numa_boundaries(cores: tuple[Core, ...]) -> list[int]:
    return [
        position
        for position, (before, after) in enumerate(pairwise(cores), start=1)
        if before.numa_node != after.numa_node
    ]


def _cut_evenly(cores: tuple[Core, ...], workers: int) -> list[tuple[Core, ...]]:
    size, larger = divmod(len(cores), workers)
    ends = [rank * size + min(rank, larger) for rank in range(workers + 1)]
    return [cores[begin:end] for begin, end in pairwise(ends)]


def _too_many_workers(workers: int, allowed: tuple[int, ...], cores: int) -> str:
    return (
        f"{workers} workers asked for, but the allowed cpus {format_cpulist(allowed)} hold "
        f"{cores} physical core{'s' if cores > 1 else ''}: use --workers {cores}"
        f"{' or fewer' if cores > 1 else ''}, or widen the cpuset"
    )
