"""What a run is going to be on this machine, decided and checked before any process starts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from affinity import (
    Allowed,
    Placement,
    PlacementError,
    Plan,
    Request,
    Reserve,
    TooManyWorkers,
    Topology,
    format_cpulist,
    parse_cpulist,
    parse_hbm,
    physical_cores,
    place_workers,
    read_allowed,
    read_topology,
    tiles_of,
)
from knltrain.build import check_names, check_run, doubts_about, resolved
from knltrain.config import RunConfig, with_workers

_KEY_OF_OPTION = {
    r"policy '(\w+)'": r'placement.memory = "\1"',
    r"kind '(\w+)'": r'placement.memory_kind = "\1"',
    r"--hbm\b": "placement.hbm_nodes",
}


@dataclass(frozen=True, slots=True)
class RunPlan:
    """A run with nothing left open: `config.workers` is a number, every worker has its place.

    `notes` are what a user should know about the places.
    """

    config: RunConfig
    placements: tuple[Placement, ...]
    total_steps: int
    notes: tuple[str, ...] = ()

    @property
    def workers(self) -> int:
        """Number of workers."""
        return len(self.placements)

    def noting(self, notes: Iterable[str]) -> RunPlan:
        """The same plan with more notes."""
        return replace(self, notes=(*self.notes, *notes))


def plan_run(config: RunConfig) -> RunPlan:
    """Decide the number of workers and their places, and try what could stop a worker half-way.

    Raises ConfigError, DataError, or TopologyError or PlacementError of affinity.
    """
    try:
        plan = _plan(config)
    except TooManyWorkers as error:
        raise TooManyWorkers(_in_words_of_a_run(str(error)), error.most) from None
    except PlacementError as error:
        raise PlacementError(_in_words_of_a_run(str(error))) from None
    return replace(plan, notes=tuple(map(_in_words_of_a_run, plan.notes)))


def _plan(config: RunConfig) -> RunPlan:
    check_names(config)
    hbm_nodes = config.placement.hbm_nodes
    topology = read_topology(hbm=parse_hbm(hbm_nodes) if hbm_nodes else None)
    allowed = read_allowed()
    config = _at_home_anywhere(_counted(config, topology, allowed))
    doubts = doubts_about(config, int(config.workers))
    if not config.placement.pin:
        plan = _unpinned(config, topology, allowed)
        size = check_run(config)
        notes = (*doubts, *size.notes, *allowed.notes, *plan.notes)
        return RunPlan(config, plan.workers, size.total_steps, notes)
    request = request_of(config)
    place_workers(topology, allowed, _cores_alone(request))  # too many workers: said first
    size = check_run(config)
    plan = place_workers(topology, allowed, replace(request, needs=size.needs))
    notes = (*doubts, *size.notes, *allowed.notes, *plan.notes)
    return RunPlan(config, plan.workers, size.total_steps, notes)


def request_of(config: RunConfig) -> Request:
    """What a run asks of the machine, but for the memory it needs; "auto" counts as 1 worker."""
    wanted = config.placement
    return Request(
        workers=1 if config.workers == "auto" else config.workers,
        threads_per_core=wanted.threads_per_core,
        reserve=Reserve(
            os_cpus=parse_cpulist(wanted.os_cpus),
            os_cores=wanted.os_cores,
            communication_cores=wanted.communication_cores,
        ),
        policy=wanted.memory,
        kind=wanted.memory_kind,
    )


def threads_of(config: RunConfig, placement: Placement) -> int:
    """Threads of one worker: as configured, or as many as its place is made for."""
    threads = config.backend.threads
    return placement.threads if threads == "auto" else threads


def asked_of(config: RunConfig, placement: Placement) -> dict[str, object]:
    """One worker's place in the words of `placement.json`."""
    memory = placement.memory
    return {
        "pinned": config.placement.pin,
        "cpus": format_cpulist(placement.cpus),
        "threads": threads_of(config, placement),
        "numa_nodes": list(placement.numa_nodes),
        "memory": {
            "policy": memory.policy,
            "mode": memory.mode,
            "nodes": list(memory.nodes),
            "order": list(memory.order),
            "budget_bytes": memory.budget_bytes,
            "need_bytes": memory.need_bytes,
        },
        "reasons": [*placement.reasons, *memory.reasons],
    }


def _counted(config: RunConfig, topology: Topology, allowed: Allowed) -> RunConfig:
    """The same run with "auto" or "one worker per unit" as a number, and all that follows."""
    request = _cores_alone(request_of(config))
    if config.workers == "auto":
        # At most one on each tile, on most machines a core, that the system leaves.
        cpus = place_workers(topology, allowed, request).workers[0].cpus
        return resolved(config, len(tiles_of(topology, physical_cores(topology, cpus))))
    if not isinstance(config.workers, int):
        config = with_workers(config, len(place_workers(topology, allowed, request).workers))
    return resolved(config)


def _cores_alone(request: Request) -> Request:
    return replace(request, policy="none", kind="best")


def _unpinned(config: RunConfig, topology: Topology, allowed: Allowed) -> Plan:
    cores, workers = physical_cores(topology, allowed.cpus), int(config.workers)
    nodes = tuple(sorted({core.numa_node for core in cores}))
    threads = max(1, len(cores) // workers)
    places = tuple(Placement(rank, allowed.cpus, threads, nodes) for rank in range(workers))
    asked = config.placement.model_dump(exclude_defaults=True, exclude={"pin", "hbm_nodes"})
    notes = (
        f"placement.pin = false: workers and their memory go anywhere, placement.{name} = "
        f"{value!r} is not heeded"
        for name, value in asked.items()
    )
    return Plan(places, notes=tuple(notes))


def _in_words_of_a_run(text: str) -> str:
    """What affinity says, with the keys of a configuration instead of its options."""
    for option, key in _KEY_OF_OPTION.items():
        text = re.sub(option, key, text)
    return text


def _at_home_anywhere(config: RunConfig) -> RunConfig:
    """The same run, its data found from any working directory."""
    if config.data.root is None:
        return config
    data = config.data.model_copy(update={"root": str(Path(config.data.root).absolute())})
    return config.model_copy(update={"data": data})
