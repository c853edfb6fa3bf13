"""Cpus that the user gives to each rank, checked against the machine and the permissions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from affinity.cpulist import format_cpulist
from affinity.errors import PlacementError
from affinity.placement.tiles import narrowed, uncut
from affinity.placement.wording import by_whom, counted, listed
from affinity.topology import Core, Topology

if TYPE_CHECKING:
    from affinity.process.allowed import AllowedResources


def cores_by_hand(
    topology: Topology,
    allowed: AllowedResources,
    kept: frozenset[int],
    cpus: Sequence[tuple[int, ...]],
) -> list[tuple[Core, ...]]:
    """The cores of each rank, narrowed to the cpus given for it.

    Raises PlacementError if a rank has no cpus, or cpus that another rank has, that are not
    allowed, that do not exist, or that are kept for the system.
    """
    owner: dict[int, int] = {}
    for rank, given in enumerate(cpus):
        _check(topology, allowed, kept, rank, given)
        for cpu in dict.fromkeys(given):
            if cpu in owner:
                raise PlacementError(
                    f"cpu {cpu} is given to worker {owner[cpu]} and to worker {rank}: "
                    "give each cpu to one worker"
                )
            owner[cpu] = rank
    return [narrowed(topology.cores, given) for given in cpus]


def notes_by_hand(
    topology: Topology, allowed: Sequence[Core], groups: Sequence[Sequence[Core]]
) -> list[str]:
    """Notes on cpus given by hand: cores and tiles that they cut."""
    rank_of = {
        cpu: rank for rank, group in enumerate(groups) for core in group for cpu in core.cpus
    }
    notes = []
    if cut := [core for core in allowed if len({rank_of.get(cpu) for cpu in core.cpus}) > 1]:
        cores = listed(format_cpulist(core.cpus) for core in cut)
        notes.append(
            f"cpus by hand cut {counted(len(cut), 'physical core')} (the hardware threads "
            f"{cores}): the parts slow each other down"
        )
    tiles = [{rank_of.get(cpu) for core in group for cpu in core.cpus} for group in uncut(topology)]
    shared = sum(len(ranks - {None}) > 1 for ranks in tiles)
    if shared and not cut:
        notes.append(
            f"cpus by hand let workers share {counted(shared, 'tile')} (cores on one L2 cache)"
        )
    return notes


def _check(
    topology: Topology,
    allowed: AllowedResources,
    kept: frozenset[int],
    rank: int,
    given: tuple[int, ...],
) -> None:
    if not given:
        raise PlacementError(f"worker {rank} is given no cpus: give each worker at least one")
    where = f"the cpus given to worker {rank} ({format_cpulist(given)}) include"
    if unknown := set(given).difference(topology.cpus):
        raise PlacementError(
            f"{where} {format_cpulist(unknown)}, but this machine has only "
            f"{format_cpulist(topology.cpus)} online"
        )
    if outside := set(given).difference(allowed.cpus):
        raise PlacementError(
            f"{where} {format_cpulist(outside)}, but only {format_cpulist(allowed.cpus)} are "
            f"allowed{by_whom(allowed)}: choose among these, or {allowed.way_to_more_cpus}"
        )
    if system := kept.intersection(given):
        raise PlacementError(
            f"{where} {format_cpulist(system)}, kept for the system: choose others, or keep fewer"
        )
