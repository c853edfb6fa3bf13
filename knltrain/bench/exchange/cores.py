"""The cores of a contestant's processes."""

from __future__ import annotations

from affinity import (
    AllowedResources,
    Request,
    Topology,
    allowed_cpus,
    physical_cores,
    place_workers,
    read_topology,
)
from knltrain.errors import ConfigError


def cores_of(workers: int) -> list[list[int]]:
    """The cpus of each worker, one per core, and as many for each.

    Raises ConfigError for fewer than 2 workers, and for more than there are cores.
    """
    topology, allowed = read_topology(), allowed_cpus()
    cores = len(physical_cores(topology, allowed))
    if not 2 <= workers <= cores:
        raise ConfigError(
            f"--workers {workers}: expected at least 2, and at most the {cores} physical cores of "
            "the allowed cpus"
        )
    return groups_of(topology, allowed, workers, cores // workers)


def groups_of(
    topology: Topology, allowed: tuple[int, ...], workers: int, cores: int | None
) -> list[list[int]]:
    """The cpus of each worker, one per core; of all allowed cores if their number is None."""
    request = Request(workers, cores, policy="none")
    plan = place_workers(topology, AllowedResources(allowed), request)
    return [[core[0] for core in placement.cores] for placement in plan.workers]
