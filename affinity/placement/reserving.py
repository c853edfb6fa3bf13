"""Cores that do not compute: for the system, for communication, for reading data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from affinity.cpulist import format_cpulist
from affinity.errors import PlacementError
from affinity.placement.plan import Placement, Request, Reserve
from affinity.placement.tiles import tiles_of, uncut
from affinity.placement.wording import counted, numbered
from affinity.topology import Core, Topology


def kept_for_system(topology: Topology, cores: Sequence[Core], reserve: Reserve) -> frozenset[int]:
    """The cpus that go to nobody: whole tiles with `os_cpus`, and `os_cores` of each package.

    `cores` are those that may be used at all; `os_cores` are chosen among them, and what
    `os_cpus` keeps of a package counts. Raises PlacementError for cpus that the machine lacks.
    """
    wanted = frozenset(reserve.os_cpus)
    if unknown := wanted.difference(topology.cpus, topology.offline_cpus):
        raise PlacementError(
            f"{numbered('cpu', unknown)} asked to be kept for the system, but this machine has "
            f"only {format_cpulist(topology.cpus)}"
        )
    kept: set[int] = set()
    for group in uncut(topology) if wanted else ():
        cpus = {cpu for core in group for cpu in core.cpus}
        if not wanted.isdisjoint(cpus):
            kept |= cpus
    if reserve.os_cores:
        kept |= _lowest(topology, cores, reserve.os_cores, kept)
    return frozenset(kept)


def _lowest(topology: Topology, cores: Sequence[Core], number: int, kept: set[int]) -> set[int]:
    """The cpus of whole tiles, lowest first, until so many cores of each package are kept."""
    still: defaultdict[int, int] = defaultdict(lambda: number)
    for core in cores:
        still[core.package] -= not kept.isdisjoint(core.cpus)
    taken: set[int] = set()
    for tile in sorted(tiles_of(topology, cores), key=lambda tile: min(tile.cores[0].cpus)):
        if still[tile.package] > 0 and kept.isdisjoint(tile.cores[0].cpus):
            still[tile.package] -= len(tile.cores)
            taken.update(cpu for core in tile.cores for cpu in core.cpus)
    return taken


def seat(rank: int, cores: Sequence[Core], request: Request) -> Placement:
    """One worker on `cores`: the last ones communicate, those before them read data.

    Raises PlacementError if none is left to compute, or a core has too few hardware threads.
    """
    reserve = request.reserve
    apart = 0 if reserve.communication_on_siblings else reserve.communication_cores
    computing = cores[: max(0, len(cores) - apart - reserve.data_cores)]
    if not computing:
        raise PlacementError(_nothing_left(rank, len(cores), apart, reserve.data_cores))
    _check_threads(rank, computing, request)
    end = len(computing) + reserve.data_cores
    return Placement(
        rank=rank,
        cpus=_cpus(computing),
        threads=len(computing) * request.threads_per_core,
        numa_nodes=tuple(sorted({core.numa_node for core in computing})),
        cores=tuple(core.cpus for core in computing),
        threads_per_core=request.threads_per_core,
        communication_cpus=_communication(rank, cores[end:], computing, request),
        data_cpus=_cpus(cores[len(computing) : end]),
    )


def _communication(
    rank: int, apart: Sequence[Core], computing: Sequence[Core], request: Request
) -> tuple[int, ...]:
    reserve = request.reserve
    if not reserve.communication_on_siblings:
        return _cpus(apart)
    chosen = computing[-reserve.communication_cores :]
    if len(chosen) < reserve.communication_cores:
        raise PlacementError(
            f"{counted(reserve.communication_cores, 'communication thread')} on siblings asked "
            f"for, but worker {rank} computes on {counted(len(computing), 'core')}: "
            f"ask for {len(computing)} or fewer"
        )
    return tuple(sorted(core.cpus[request.threads_per_core] for core in chosen))


def _check_threads(rank: int, cores: Sequence[Core], request: Request) -> None:
    """Every core needs a hardware thread for each computing one, and one more for siblings."""
    smallest = min(cores, key=lambda core: len(core.cpus))
    wanted, siblings = request.threads_per_core, request.reserve.communication_on_siblings
    if wanted + siblings <= len(smallest.cpus):
        return
    more = " and communication on a sibling" if siblings else ""
    most = len(smallest.cpus) - siblings
    fewer = f"use {most}{' or fewer' if most > 1 else ''}"
    way_out = fewer if most else "use cores of their own for communication"
    raise PlacementError(
        f"{counted(wanted, 'thread')} per core{more} asked for, but a core of worker {rank} has "
        f"{counted(len(smallest.cpus), 'allowed hardware thread')} "
        f"({numbered('cpu', smallest.cpus)}): {way_out}"
    )


def _nothing_left(rank: int, cores: int, communication: int, data: int) -> str:
    asked = [counted(communication, "core") + " for communication"] if communication else []
    asked += [counted(data, "core") + " for data"] if data else []
    return (
        f"worker {rank} has {counted(cores, 'core')}, of which {' and '.join(asked)} would leave "
        "none to compute: use fewer workers, keep fewer cores, or put communication on siblings"
    )


def _cpus(cores: Sequence[Core]) -> tuple[int, ...]:
    return tuple(sorted(cpu for core in cores for cpu in core.cpus))
