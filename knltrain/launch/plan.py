"""What a run is going to be on this machine, decided and checked before any process starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from affinity import (
    Placement,
    allowed_cpus,
    format_cpulist,
    physical_cores,
    place_workers,
    read_topology,
)
from knltrain.build import check_names, check_run, resolved
from knltrain.config import RunConfig


@dataclass(frozen=True, slots=True)
class RunPlan:
    """A run with nothing left open: `config.workers` is a number, every worker has its place."""

    config: RunConfig
    placements: tuple[Placement, ...]
    total_steps: int

    @property
    def workers(self) -> int:
        """Number of workers."""
        return len(self.placements)


def plan_run(config: RunConfig) -> RunPlan:
    """Decide the number of workers and their places, and try what could stop a worker half-way.

    Raises ConfigError, DataError, or PlacementError of affinity.
    """
    check_names(config)
    topology, allowed = read_topology(), allowed_cpus()
    cores = physical_cores(topology, allowed)
    config = resolved(_at_home_anywhere(config), len(cores))
    workers = int(config.workers)
    if config.placement.pin:
        placements = place_workers(topology, allowed, workers)
    else:
        nodes = tuple(sorted({core.numa_node for core in cores}))
        threads = max(1, len(cores) // workers)
        placements = tuple(Placement(rank, allowed, threads, nodes) for rank in range(workers))
    return RunPlan(config, placements, check_run(config))


def threads_of(config: RunConfig, placement: Placement) -> int:
    """Threads of one worker: as configured, or one per physical core of its place."""
    threads = config.backend.threads
    return placement.threads if threads == "auto" else threads


def asked_of(config: RunConfig, placement: Placement) -> dict[str, object]:
    """One worker's place in the words of `placement.json`."""
    return {
        "pinned": config.placement.pin,
        "cpus": format_cpulist(placement.cpus),
        "threads": threads_of(config, placement),
        "numa_nodes": list(placement.numa_nodes),
    }


def _at_home_anywhere(config: RunConfig) -> RunConfig:
    """The same run, its data found from any working directory."""
    if config.data.root is None:
        return config
    data = config.data.model_copy(update={"root": str(Path(config.data.root).absolute())})
    return config.model_copy(update={"data": data})
