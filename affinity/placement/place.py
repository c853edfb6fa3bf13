"""Places each worker: whole tiles, close together, with HBM next to them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from affinity.cpulist import format_cpulist
from affinity.errors import PlacementError, TooManyWorkers
from affinity.placement.beside_gpus import GPU_HOST_CORES, cores_beside, with_gpu_of
from affinity.placement.budget import plan_memory
from affinity.placement.checks import check_request
from affinity.placement.explain import UNIT_WORDS, Explainer, plan_notes
from affinity.placement.memories import Memories
from affinity.placement.plan import Plan, Request
from affinity.placement.reserving import kept_for_system, seat
from affinity.placement.sharing import Group, pack, share
from affinity.placement.tiles import Tile, has_cache, narrowed, single, tiles_of
from affinity.placement.wording import by_whom, counted, numbered
from affinity.topology import Core, Topology

if TYPE_CHECKING:
    from affinity.process.allowed import AllowedResources


def physical_cores(topology: Topology, allowed_cpus: Iterable[int]) -> tuple[Core, ...]:
    """The cores with at least one allowed cpu, each with its allowed cpus only.

    Raises PlacementError if no cpu is allowed, or one is allowed that the topology does not have.
    """
    wanted = frozenset(allowed_cpus)
    if unknown := wanted.difference(topology.cpus, topology.offline_cpus):
        raise PlacementError(
            f"the allowed cpus include {format_cpulist(unknown)}, but this machine has only "
            f"{format_cpulist(topology.cpus)}: read the topology on the machine that runs"
        )
    cores = narrowed(topology.cores, wanted)
    if not cores:
        raise PlacementError("no cpus are allowed, so no worker can be placed: widen the cpuset")
    return cores


def place_workers(topology: Topology, allowed: AllowedResources, request: Request) -> Plan:
    """Give every worker its cores and its memory, rank after rank in the order of the machine.

    No tile and no core is cut, and hardware threads of a core stay together. Without
    `cores_per_worker` every allowed core goes to a worker or is kept as `Request.reserve` says;
    groups are even, or up to a tenth smaller (`ALIGNED_SHARE`) where that keeps workers from
    spreading over packages, NUMA nodes or L3s. A pure function: the same answer anywhere.

    Raises PlacementError if cores or memory that are asked for cannot be had.
    """
    check_request(request)
    return _Placer(topology, allowed, request).plan()


class _Placer:
    """One request on one machine."""

    def __init__(self, topology: Topology, allowed: AllowedResources, request: Request) -> None:
        self.topology, self.allowed, self.request = topology, allowed, request
        self.allowed_cores = physical_cores(topology, allowed.cpus)
        self.kept = kept_for_system(topology, self.allowed_cores, request.reserve)
        self.cores = [core for core in self.allowed_cores if self.kept.isdisjoint(core.cpus)]
        self.tiles = tiles_of(topology, self.cores)

    def plan(self) -> Plan:
        """Place cores first, then memory, then collect notes."""
        groups = self._groups()
        seats = [
            with_gpu_of(seat(rank, group, self.request), self.request)
            for rank, group in enumerate(groups)
        ]
        memories = Memories(self.topology, self.allowed)
        plans, memory_notes = plan_memory(memories, seats, self.request)
        explainer = Explainer(self.topology, self.request, self.cores, self.tiles)
        workers = tuple(
            replace(seat, memory=memory, reasons=explainer.reasons(seat, group, len(seats)))
            for seat, memory, group in zip(seats, plans, groups, strict=True)
        )
        cpus = {cpu for core in self.allowed_cores for cpu in core.cpus}
        idle = sorted(cpus.difference(self.kept, *(worker.all_cpus for worker in workers)))
        notes = plan_notes(self.topology, self.allowed, self.request, workers, idle)
        if self.request.cpus:
            from affinity.placement.by_hand import notes_by_hand

            notes += notes_by_hand(self.topology, self.allowed_cores, groups)
        os_cpus = tuple(sorted(self.kept.intersection(cpus)))
        return Plan(workers, os_cpus, tuple(idle), (*notes, *memory_notes))

    def _groups(self) -> list[tuple[Core, ...]]:
        """The cores of each worker, helpers included."""
        if self.request.cpus:
            from affinity.placement.by_hand import cores_by_hand

            return cores_by_hand(self.topology, self.allowed, self.kept, self.request.cpus)
        if not self.cores:
            raise PlacementError(
                f"nothing is left for workers: of the allowed cpus "
                f"{format_cpulist(self.allowed.cpus)}{by_whom(self.allowed)} "
                f"{format_cpulist(self.kept)} are kept for the system: keep fewer"
            )
        if any(self.request.gpus):
            return self._beside_gpus()
        if isinstance(self.request.workers, int):
            groups = self._numbered(self.request.workers)
        else:
            groups = self._one_per_unit()
        return [_cores(group)[: self.request.cores_per_worker] for group in groups]

    def _beside_gpus(self) -> list[tuple[Core, ...]]:
        """The cores next to the GPUs first, then what the workers without one share."""
        request, workers = self.request, int(self.request.workers)
        gpus = {rank: gpu for rank, gpu in enumerate(request.gpus) if gpu is not None}
        others = [rank for rank in range(workers) if rank not in gpus]
        most = None if others else request.cores_per_worker
        each = request.gpu_host_cores or (GPU_HOST_CORES if others else most)
        beside = cores_beside(self.tiles, tuple(gpus.values()), each)
        groups = dict(zip(gpus, (_cores(group)[:most] for group in beside), strict=True))
        if others:
            left = {cpu for core in self.cores for cpu in core.cpus}
            left.difference_update(*(core.cpus for group in groups.values() for core in group))
            if not left:
                raise PlacementError(
                    f"{counted(len(gpus), 'worker')} with a GPU would have all cores, "
                    f"{counted(len(others), 'worker')} without one none: ask for fewer cores "
                    "beside each GPU, or for fewer workers"
                )
            whom = f"{counted(len(gpus), 'worker')} with a GPU have the rest"
            allowed = replace(
                self.allowed, cpus=tuple(sorted(left)), said_by=(*self.allowed.said_by, whom)
            )
            # What is kept for the system is not among these any more.
            reserve = replace(request.reserve, os_cores=0, os_cpus=())
            rest = replace(request, workers=len(others), gpus=(), reserve=reserve)
            groups.update(zip(others, _Placer(self.topology, allowed, rest)._groups(), strict=True))
        return [groups[rank] for rank in range(workers)]

    def _numbered(self, workers: int) -> list[Group]:
        if workers > len(self.tiles):
            raise TooManyWorkers(self._too_many(workers), len(self.tiles))
        cores = self.request.cores_per_worker
        if cores is None:
            return share(self.tiles, workers)
        if self.request.strategy == "close":
            groups = pack(self.tiles, workers, cores)
        else:
            groups = [pack(part, 1, cores)[0] for part in share(self.tiles, workers, least=cores)]
        if not groups:
            raise PlacementError(self._too_large(workers, cores))
        return groups

    def _one_per_unit(self) -> list[Group]:
        """All tiles of each unit, or as many as are asked for."""
        unit, cores = str(self.request.workers), self.request.cores_per_worker
        groups = self._units(unit)
        if cores is None:
            return groups
        for group in groups:
            if (size := sum(len(tile.cores) for tile in group)) < cores:
                raise PlacementError(
                    f"{counted(cores, 'core')} on each {UNIT_WORDS[unit]} asked for, but one has "
                    f"only {size} ({numbered('cpu', _cpus(group))}): "
                    f"ask for {size}{' or fewer' if size > 1 else ''}"
                )
        return [pack(group, 1, cores)[0] for group in groups]

    def _units(self, unit: str) -> list[Group]:
        if unit == "core":
            return [(single(core),) for tile in self.tiles for core in tile.cores]
        if unit == "l3" and not has_cache(self.topology, 3):
            raise PlacementError(
                "one worker for each L3 cache asked for, but no L3 is known on this machine: "
                "use tile, numa or package"
            )
        groups: dict[Hashable, list[Tile]] = {}
        for tile in self.tiles:
            key = {"tile": tile.l2, "l3": tile.l3, "numa": tile.numa_node, "package": tile.package}
            groups.setdefault(key[unit], []).append(tile)
        return [tuple(group) for group in groups.values()]

    def _room(self) -> str:
        """What there is to give out, in the words of an error."""
        kept = self.kept.intersection(cpu for core in self.allowed_cores for cpu in core.cpus)
        system = f" besides {numbered('cpu', kept)}, kept for the system," if kept else ""
        return (
            f"the allowed cpus {format_cpulist(self.allowed.cpus)}{by_whom(self.allowed)}{system} "
            f"hold {counted(len(self.cores), 'physical core')}"
        )

    def _too_many(self, workers: int) -> str:
        most = len(self.tiles)
        tiles = (
            f" on {counted(most, 'tile')} (cores that share an L2 cache stay together)"
            if most < len(self.cores)
            else ""
        )
        way = ", --workers core for one on each core" if tiles else ""
        return (
            f"{workers} workers asked for, but {self._room()}{tiles}: use --workers {most}"
            f"{' or fewer' if most > 1 else ''}{way}, or {self.allowed.way_to_more_cpus}"
        )

    def _too_large(self, workers: int, cores: int) -> str:
        most = len(pack(self.tiles, 1, cores)) and self._most(cores)
        tiles = (
            " (cores that share an L2 cache stay together)"
            if len(self.tiles) < len(self.cores)
            else ""
        )
        fit = f"room for {counted(most, 'such worker')}" if most else "too few even for one"
        fewer = "fewer workers, fewer cores for each" if most else "fewer cores for each worker"
        return (
            f"{counted(workers, 'worker')} of {counted(cores, 'core')} asked for, but "
            f"{self._room()}, {fit}{tiles}: use {fewer}, or {self.allowed.way_to_more_cpus}"
        )

    def _most(self, cores: int) -> int:
        return max(n for n in range(1, len(self.tiles) + 1) if pack(self.tiles, n, cores))


def _cores(group: Sequence[Tile]) -> tuple[Core, ...]:
    return tuple(core for tile in group for core in tile.cores)


def _cpus(group: Sequence[Tile]) -> list[int]:
    return [cpu for tile in group for core in tile.cores for cpu in core.cpus]
