"""The plan of a run on this machine, decided and checked before any process starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from affinity import (
    AllowedResources,
    OptionNames,
    Placement,
    Plan,
    Request,
    Reserve,
    Topology,
    format_cpulist,
    options_named,
    parse_cpulist,
    parse_hbm,
    physical_cores,
    place_workers,
    read_allowed,
    read_topology,
    tiles_of,
    with_gpu_of,
)
from knltrain.assembly import check_names, check_run, doubts_about, resolved, strategy_of
from knltrain.assembly.preprocessing import with_numbers
from knltrain.config import RunConfig, with_workers
from knltrain.data.contents import DataContents
from knltrain.data.dataset import Dataset
from knltrain.data.model_preprocessing import ModelPreprocessing
from knltrain.errors import ConfigError
from knltrain.input.batch_shape import BatchShape
from knltrain.launch.data_cores import apart_for_data, memory_for_data
from knltrain.launch.node_share import ALONE, NodeShare

Keep: TypeAlias = Callable[[tuple[int, ...], Dataset], None]
"""What is done with a data set that was read, and the NUMA nodes that its copy goes to."""

_KEYS: Final = OptionNames(
    policy='placement.memory = "{}"',
    kind='placement.memory_kind = "{}"',
    hbm="placement.hbm_nodes",
    hbm_nodes='placement.hbm_nodes = "{}"',
)
"""What affinity's messages call the keys of a run."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """A completely decided run: `config.workers` is a number, every worker has its place.

    `placements` are those of the workers that this process starts, as `node_share` says; their
    ranks are those on this node. `notes` are messages for the user about the places. `data` are
    the contents of the data set. `pool` is the place of the data pool, if this process starts one,
    and `batch` the shape of what it makes for each worker. `preprocessing` is that of the model,
    and `config.data` has its numbers.
    """

    config: RunConfig
    placements: tuple[Placement, ...]
    total_steps: int
    notes: tuple[str, ...] = ()
    node_share: NodeShare = ALONE
    data: DataContents | None = None
    pool: Placement | None = None
    batch: BatchShape | None = None
    preprocessing: ModelPreprocessing | None = None

    @property
    def workers(self) -> int:
        """Number of workers, on all nodes."""
        return self.config.total_workers

    def rank_of(self, placement: Placement) -> int:
        """A worker's rank in the run."""
        return self.node_share.node * int(self.config.workers) + placement.rank

    def at(self, node_share: NodeShare) -> RunPlan:
        """The same plan for another node share, once the node's or the share's number is known."""
        own = len(self.placements)
        first = (node_share.share - self.node_share.share) * own
        places = tuple(replace(each, rank=each.rank + first) for each in self.placements)
        return replace(self, node_share=node_share, placements=places)

    def noting(self, notes: Iterable[str]) -> RunPlan:
        """The same plan with more notes."""
        return replace(self, notes=(*self.notes, *notes))


def plan_run(config: RunConfig, node_share: NodeShare = ALONE, keep: Keep | None = None) -> RunPlan:
    """Decide the number of workers and their places; check all that could fail later in the run.

    `node_share` says on how many computers, and which share of a computer's workers starts here.
    `keep` gets the data set that was read for the check, and the NUMA nodes that a copy for all
    workers is to be spread over.

    Raises ConfigError, DataError, or TopologyError or PlacementError of affinity.
    """
    with options_named(_KEYS):
        return _plan(config, node_share, keep)


def _plan(config: RunConfig, node_share: NodeShare, keep: Keep | None) -> RunPlan:
    check_names(config)
    config = _on_nodes(config, node_share)
    hbm_nodes = config.placement.hbm_nodes
    topology = read_topology(hbm=parse_hbm(hbm_nodes) if hbm_nodes else None)
    allowed = read_allowed()
    config, pool, allowed = apart_for_data(config, node_share, topology, allowed)
    asked, config = config, _at_home_anywhere(_counted(config, node_share, topology, allowed))
    doubts = doubts_about(config, config.total_workers)
    request = request_of(config, node_share)
    if not config.backend.is_plain:
        from knltrain.launch.gpus import with_gpus

        request = with_gpus(request, config, topology, node_share)
    request, quota_notes = _within_quota(asked, request, topology, allowed)
    if config.placement.pin:
        place_workers(topology, allowed, _cores_alone(request))  # too many workers: said first
    nodes = memory_for_data(config, topology, allowed)
    size = check_run(config, None if keep is None else partial(keep, nodes))
    if config.total_nodes > 1 or strategy_of(config).is_one_mpi_job:
        from knltrain.launch.way_between_nodes import check_way

        check_way(config)
    if config.placement.pin:
        plan = place_workers(topology, allowed, replace(request, needs=size.needs))
    else:
        plan = _unpinned(config, topology, allowed, request)
    notes = (*doubts, *size.notes, *(quota_notes or allowed.notes), *_crowded(config, plan))
    notes += plan.notes
    return RunPlan(
        with_numbers(config, size.preprocessing),
        _of_share(plan, node_share),
        size.total_steps,
        notes,
        node_share,
        size.data,
        pool,
        size.batch,
        size.preprocessing,
    )


def request_of(config: RunConfig, node_share: NodeShare = ALONE) -> Request:
    """A run's `Request` to affinity, without its memory needs; "auto" counts as 1 worker."""
    wanted = config.placement
    workers = config.workers
    if isinstance(workers, int):
        workers = _share_of(workers, node_share)
    return Request(
        workers=1 if workers == "auto" else workers,
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
    """Threads of one worker: as configured, or as many as its place has computing cores for."""
    threads = config.backend.threads
    return placement.threads if threads == "auto" else threads


def asked_of(config: RunConfig, placement: Placement) -> dict[str, object]:
    """One worker's place as written in `placement.json`."""
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
        **({"gpu": placement.gpu} if placement.gpu else {}),
    }


def _on_nodes(config: RunConfig, node_share: NodeShare) -> RunConfig:
    """The same run on this number of computers; ConfigError if another number is configured."""
    if config.nodes not in ("auto", node_share.nodes):
        raise ConfigError(
            f"nodes = {config.nodes}, but this process is started on {node_share.nodes}: expected "
            f"a launcher to start one on each, as `srun --nodes={config.nodes} knltrain train "
            'CONFIG`, or nodes = "auto"; a run is resumed on other computers by --set nodes=N '
            "--set workers=M, where N x M workers are as many as before"
        )
    if node_share.nodes > 1:
        from knltrain.launch.way_between_nodes import with_way_decided

        config = with_way_decided(config)
    return config.model_copy(update={"nodes": node_share.nodes})


def _share_of(workers: int, node_share: NodeShare) -> int:
    """How many of a computer's workers are started here."""
    if workers % node_share.shares:
        raise ConfigError(
            f"workers = {workers}: {node_share.shares} tasks were started on this computer, which "
            f"cannot start as many each; expected a multiple of {node_share.shares}"
        )
    return workers // node_share.shares


def _of_share(plan: Plan, node_share: NodeShare) -> tuple[Placement, ...]:
    """The places of a share's workers, with their ranks on this computer."""
    first = node_share.share * len(plan.workers)
    return tuple(replace(place, rank=first + place.rank) for place in plan.workers)


def _counted(
    config: RunConfig, node_share: NodeShare, topology: Topology, allowed: AllowedResources
) -> RunConfig:
    """The same run with "auto" or "one worker per unit" as a number, and all that follows."""
    request = _cores_alone(request_of(config, node_share))
    if config.workers == "auto":
        # At most one on each tile, on most machines a core, that the system leaves.
        cpus = place_workers(topology, allowed, request).workers[0].cpus
        most = _at_most(allowed, len(tiles_of(topology, physical_cores(topology, cpus))))
        if not config.backend.is_plain:
            from knltrain.launch.gpus import most_on_gpus

            most = min(most, most_on_gpus(config, topology, node_share) or most)
        if node_share.shares > 1:
            return resolved(with_workers(config, node_share.shares * most))
        return resolved(config, most)
    if not isinstance(config.workers, int):
        units = len(place_workers(topology, allowed, request).workers)
        config = with_workers(config, node_share.shares * units)
    return resolved(config)


def _at_most(allowed: AllowedResources, places: int) -> int:
    """The number of workers that have places and CPU time, which a control group may limit."""
    return places if allowed.cpu_quota is None else max(1, min(places, int(allowed.cpu_quota)))


def _within_quota(
    asked: RunConfig, request: Request, topology: Topology, allowed: AllowedResources
) -> tuple[Request, list[str]]:
    """The request with no more threads than the CPU quota allows, unless they are configured.

    Returns notes as well: none where the quota is no limit, or workers were given by number.
    """
    quota, cores = allowed.cpu_quota, len(physical_cores(topology, allowed.cpus))
    if quota is None or quota >= cores or asked.workers != "auto":
        return request, []
    places = place_workers(topology, allowed, _cores_alone(request)).workers
    note = (
        f'workers = "auto" heeds a control group that gives this process time of {quota:g} cpus: '
        f"{len(places)} here, on {cores} cores; raise the quota (cpu.max) for more"
    )
    if asked.backend.threads != "auto" or not asked.placement.pin:
        return request, [note, *allowed.notes]
    room = min(len(physical_cores(topology, place.all_cpus)) for place in places)
    each = max(1, int(quota) // len(places)) + asked.placement.communication_cores
    kept = [text for text in allowed.notes if "would be stopped again and again" not in text]
    return replace(request, cores_per_worker=min(each, room)), [note, *kept]


def _cores_alone(request: Request) -> Request:
    return replace(request, policy="none", kind="best")


def _unpinned(
    config: RunConfig, topology: Topology, allowed: AllowedResources, request: Request
) -> Plan:
    cores = physical_cores(topology, allowed.cpus)
    workers = int(request.workers)
    nodes = tuple(sorted({core.numa_node for core in cores}))
    threads = max(1, len(cores) // workers)
    places = tuple(
        with_gpu_of(Placement(rank, allowed.cpus, threads, nodes), request)
        for rank in range(workers)
    )
    heeded = {"pin", "hbm_nodes", "data_cores"}
    asked = config.placement.model_dump(exclude_defaults=True, exclude=heeded)
    notes = (
        f"placement.pin = false: workers and their memory go anywhere, placement.{name} = "
        f"{value!r} is not heeded"
        for name, value in asked.items()
    )
    return Plan(places, notes=tuple(notes))


def _crowded(config: RunConfig, plan: Plan) -> list[str]:
    """Warn of a worker with more threads than cpus."""
    threads, least = config.backend.threads, min(plan.workers, key=lambda place: len(place.cpus))
    if threads == "auto" or threads <= len(least.cpus):
        return []
    return [
        f"backend.threads = {threads}: they take turns on cpus {format_cpulist(least.cpus)} of "
        f'worker {least.rank}; expected {len(least.cpus)} at most, or "auto"'
    ]


def _at_home_anywhere(config: RunConfig) -> RunConfig:
    """The same run with absolute paths, valid in any working directory."""
    if config.data.root is not None:
        data = config.data.model_copy(update={"root": str(Path(config.data.root).absolute())})
        config = config.model_copy(update={"data": data})
    if config.balance.replay is not None:
        replay = str(Path(config.balance.replay).absolute())
        balance = config.balance.model_copy(update={"replay": replay})
        config = config.model_copy(update={"balance": balance})
    return config
