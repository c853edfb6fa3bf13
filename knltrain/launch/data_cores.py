"""The cores of a computer that make batches, and the memory that its data set goes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Final

from affinity import (
    AllowedResources,
    Core,
    Placement,
    PlacementError,
    Request,
    Reserve,
    Topology,
    format_cpulist,
    parse_cpulist,
    physical_cores,
    place_workers,
)
from knltrain.config import RunConfig
from knltrain.errors import ConfigError
from knltrain.launch.node_share import NodeShare

CORES_PER_DATA_CORE: Final = 16
"""With placement.data_cores = "auto" one of so many cores makes batches for the others."""

DATA_POOL: Final = -1
"""In place of a rank."""


def apart_for_data(
    config: RunConfig, node_share: NodeShare, topology: Topology, allowed: AllowedResources
) -> tuple[RunConfig, Placement | None, AllowedResources]:
    """Keep some of the cores that the system leaves for a data pool, and the rest for workers.

    They are the last ones of all packages in turn, so that workers have as many on each.
    Returns the run with their number decided, the pool's place, and what workers may use. Each
    share of a computer has a pool, with its part of these cores. Raises PlacementError where too
    few are left for the workers.
    """
    placement, wanted = config.placement, config.placement.data_cores
    if wanted == 0:
        return config, None, allowed
    cpus = allowed.cpus
    if placement.pin:
        kept = Reserve(os_cpus=parse_cpulist(placement.os_cpus), os_cores=placement.os_cores)
        request = Request(reserve=kept, policy="none")
        cpus = place_workers(topology, allowed, request).workers[0].cpus
    cores = physical_cores(topology, cpus)
    if wanted == "auto":
        number = len(cores) // CORES_PER_DATA_CORE
    elif wanted % node_share.shares:
        raise ConfigError(
            f"placement.data_cores = {wanted}: {node_share.shares} tasks were started on this "
            f"computer, which cannot have as many each; expected a multiple of {node_share.shares}"
        )
    else:
        number = wanted // node_share.shares
    decided = placement.model_copy(update={"data_cores": number * node_share.shares})
    config = config.model_copy(update={"placement": decided})
    if not number:
        return config, None, allowed
    if not placement.pin:
        return config, Placement(DATA_POOL, allowed.cpus, number, ()), allowed
    _check_left(config, node_share, len(cores), number)
    apart = _last_of_each_package(cores, number)
    taken = {cpu for core in apart for cpu in core.cpus}
    place = Placement(
        DATA_POOL,
        tuple(sorted(taken)),
        number,
        tuple(sorted({core.numa_node for core in apart})),
        tuple(core.cpus for core in apart),
    )
    left = tuple(cpu for cpu in allowed.cpus if cpu not in taken)
    return config, place, replace(allowed, cpus=left)


def memory_for_data(
    config: RunConfig, topology: Topology, allowed: AllowedResources
) -> tuple[int, ...]:
    """The NUMA nodes that a computer's copy of a data set is spread over: all of its DRAM.

    Only HBM where there is nothing else. None where the run's memory is not placed.
    """
    if not config.placement.pin or config.placement.memory == "none":
        return ()
    nodes = [
        node
        for node in topology.numa_nodes
        if node.memory_bytes and (allowed.mems is None or node.id in allowed.mems)
    ]
    others = tuple(node.id for node in nodes if node.kind != "hbm")
    return others or tuple(node.id for node in nodes)


def told_of_pool(config: RunConfig, place: Placement, workers: int) -> str:
    """A line about the data pool for the user."""
    cores = "1 core" if place.threads == 1 else f"{place.threads} cores"
    where = f" (cpus {format_cpulist(place.cpus)})" if config.placement.pin else ""
    each = "its worker" if workers == 1 else f"each of {workers} workers"
    return f"data pool: {cores}{where}, {config.data.batches_ahead} batches ahead of {each}"


def _last_of_each_package(cores: Sequence[Core], number: int) -> list[Core]:
    packages: dict[int, list[Core]] = {}
    for core in cores:
        packages.setdefault(core.package, []).append(core)
    turns = zip_longest(*(reversed(own) for own in reversed(packages.values())))
    found = [core for turn in turns for core in turn if core is not None]
    return found[:number]


def _check_left(config: RunConfig, node_share: NodeShare, cores: int, number: int) -> None:
    """Refuse to leave workers without a core each."""
    workers = config.workers if isinstance(config.workers, int) else node_share.shares
    each = 1 + config.placement.communication_cores
    needed = max(1, workers // node_share.shares) * each
    if cores - number >= needed:
        return
    workers_here = needed // each
    who = "1 worker needs" if workers_here == 1 else f"{workers_here} workers need"
    apiece = f" ({each} each)" if each > 1 else ""
    most = max(0, cores - needed)
    raise PlacementError(
        f"placement.data_cores = {config.placement.data_cores}: of {cores} cores here {who} "
        f"{needed}{apiece}; expected at most {most * node_share.shares}, fewer workers, or "
        "placement.pin = false, with which all share the cores"
    )
