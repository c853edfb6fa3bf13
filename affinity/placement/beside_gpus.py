"""Workers that compute on GPUs: the cores next to each, and which GPUs a worker sees."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from affinity.errors import PlacementError
from affinity.placement.plan import Placement, Request
from affinity.placement.sharing import Group, share
from affinity.placement.tiles import Tile
from affinity.placement.wording import counted
from affinity.topology import Gpu

GPU_HOST_CORES = 2
"""Of a worker beside others without a GPU: one starts the GPU's work, one exchanges."""

MIG = "MIG-"
"""What the UUID of a part of a GPU begins with."""


def name_of(gpu: Gpu) -> str:
    """The address of a GPU, and the UUID of a part of one."""
    return gpu.uuid if gpu.uuid.startswith(MIG) else gpu.address


def check_gpus(request: Request) -> None:
    """Raise PlacementError for GPUs without a worker, or without cores."""
    if not any(request.gpus):
        return
    workers = len(request.cpus) or request.workers
    if isinstance(workers, str):
        raise PlacementError(
            f"one worker for each {workers} asked for, and GPUs for some: say how many workers, "
            f"{len(request.gpus)} or more"
        )
    if len(request.gpus) > workers:
        raise PlacementError(
            f"GPUs for {counted(len(request.gpus), 'worker')}, of which there are only {workers}: "
            "ask for as many workers, or for fewer GPUs"
        )
    if request.gpu_host_cores is not None and request.gpu_host_cores < 1:
        raise PlacementError(
            f"{request.gpu_host_cores} cores beside each GPU asked for: use 1 or more"
        )


def cores_beside(tiles: Group, gpus: Sequence[Gpu], cores: int | None) -> list[Group]:
    """Whole tiles with `cores` cores for each GPU, next to it where some are left.

    Without `cores` all tiles are divided: those next to several GPUs evenly, and those next to none
    to whoever has the fewest. Raises PlacementError if there are too few.
    """
    if len(gpus) > len(tiles):
        raise PlacementError(
            f"{counted(len(gpus), 'worker')} with a GPU asked for, but there are only "
            f"{counted(len(tiles), 'tile')} (cores that share an L2 cache stay together) for them: "
            f"use {len(tiles)} or fewer"
        )
    return _all_shared(tiles, gpus) if cores is None else _picked(tiles, gpus, cores)


def gpu_of(rank: int, request: Request) -> Gpu | None:
    """The GPU of the worker of this rank."""
    return request.gpus[rank] if rank < len(request.gpus) else None


def with_gpu_of(place: Placement, request: Request) -> Placement:
    """The place with the GPU of its rank, if that has one."""
    gpu = gpu_of(place.rank, request)
    if gpu is None:
        return place
    return replace(place, gpu=name_of(gpu), visible_gpus=visible_to(gpu, request.gpus))


def visible_to(own: Gpu, gpus: Sequence[Gpu | None]) -> tuple[str, ...]:
    """The UUIDs of all GPUs of NVIDIA for the worker of one; none where one is not known.

    The worker sees the others behind its own, for copies between GPUs. A part of a GPU can do
    none: it is alone.
    """
    if own.vendor != "NVIDIA":
        return ()
    if own.uuid.startswith(MIG):
        return (own.uuid,)
    alike = [gpu for gpu in gpus if gpu is not None and gpu.vendor == own.vendor]
    uuids = tuple(dict.fromkeys(gpu.uuid for gpu in (own, *alike)))
    return uuids if all(uuids) else ()


def _all_shared(tiles: Group, gpus: Sequence[Gpu]) -> list[Group]:
    beside: dict[tuple[int, ...], list[int]] = {}
    for number, gpu in enumerate(gpus):
        beside.setdefault(gpu.cpus, []).append(number)
    found: dict[int, Group] = {}
    for cpus, numbers in beside.items():
        near = tuple(tile for tile in tiles if _is_near(tile, cpus))
        found.update(zip(numbers, share(near, len(numbers)) if near else (), strict=False))
    given = [tile for group in found.values() for tile in group]
    if len(found) < len(gpus) or len(given) != len(tiles) or set(given) != set(tiles):
        found = dict(enumerate(_picked(tiles, gpus, least_tiles=len(tiles) // len(gpus))))
        given = [tile for group in found.values() for tile in group]
    for tile in tiles:
        if tile not in given:
            fewest = min(found, key=lambda number: (_cores(found[number]), number))
            found[fewest] = (*found[fewest], tile)
    return [found[number] for number in range(len(gpus))]


def _picked(tiles: Group, gpus: Sequence[Gpu], cores: int = 1, least_tiles: int = 1) -> list[Group]:
    """So many cores and tiles for each: next to it, else next to no other, in the same package."""
    left = list(tiles)
    groups: dict[int, Group] = {}
    # Those of which nothing tells what is next to them take what the others leave.
    for number in sorted(range(len(gpus)), key=lambda number: not gpus[number].cpus):
        own = gpus[number].cpus
        packages = {tile.package for tile in tiles if _is_near(tile, own)}
        others = {cpu for at, gpu in enumerate(gpus) if at not in groups for cpu in gpu.cpus}
        group: list[Tile] = []
        order = sorted(
            left,
            key=lambda tile: (
                not _is_near(tile, own),
                _is_near(tile, others),
                tile.package not in packages,
            ),
        )
        for tile in order:
            if _cores(group) < cores or len(group) < least_tiles:
                group.append(tile)
        if _cores(group) < cores:
            raise PlacementError(
                f"{counted(cores, 'core')} beside each GPU asked for, but after "
                f"{counted(len(groups), 'worker')} with a GPU {counted(_cores(left), 'core')} "
                "are left: ask for fewer beside each, or for fewer such workers"
            )
        left = [tile for tile in left if tile not in group]
        groups[number] = tuple(group)
    return [groups[number] for number in range(len(gpus))]


def _cores(tiles: Sequence[Tile]) -> int:
    return sum(len(tile.cores) for tile in tiles)


def _is_near(tile: Tile, cpus: Collection[int]) -> bool:
    return any(cpu in cpus for core in tile.cores for cpu in core.cpus)
