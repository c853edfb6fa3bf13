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


def cores_of(
    workers: int, workers_per_core: int | None = None, option: str = "--workers"
) -> list[list[int]]:
    """The cpus of each worker, one per core, and as many for each.

    So many `workers_per_core` have the same ones; None where they cannot be asked for. Raises
    ConfigError, which names the `option` that says how many workers there are, for fewer than 2
    workers or cores, and for more workers than there is room for.
    """
    topology, allowed = read_topology(), allowed_cpus()
    cores = len(physical_cores(topology, allowed))
    sharing = workers_per_core or 1
    apart, rest = divmod(workers, sharing)
    if workers > 1 and (rest or apart < 2):
        raise ConfigError(
            f"--workers-per-core {sharing}: expected a number that divides {option} {workers}, and "
            "leaves 2 cores at least"
        )
    if not 2 <= apart <= cores:
        each = f"{sharing} on each of " if sharing > 1 else ""
        way = "; with a larger --workers-per-core they share cores"
        raise ConfigError(
            f"{option} {workers}: expected at least 2, and at most {each}the {cores} physical "
            f"cores of the allowed cpus{way if workers_per_core and apart > cores else ''}"
        )
    return groups_of(topology, allowed, apart, cores // apart) * sharing


def groups_of(
    topology: Topology, allowed: tuple[int, ...], workers: int, cores: int | None
) -> list[list[int]]:
    """The cpus of each worker, one per core; of all allowed cores if their number is None."""
    request = Request(workers, cores, policy="none")
    plan = place_workers(topology, AllowedResources(allowed), request)
    return [[core[0] for core in placement.cores] for placement in plan.workers]
