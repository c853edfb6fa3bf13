"""Builds the observers of a worker: metrics, evaluations, checkpoints, the result."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from knltrain.assembly.losses import tells_each_class
from knltrain.config import RunConfig

if TYPE_CHECKING:
    from knltrain.backends.backend import Backend
    from knltrain.checkpoint.contents import RunIdentity
    from knltrain.data.dataset import Dataset
    from knltrain.data.order import ShardedBatches
    from knltrain.exchange.strategies.method import Method
    from knltrain.exchange.transports.team import Team
    from knltrain.network.network import Network
    from knltrain.worker.observer import Observer


def logs_metrics(
    run_folder: Path, rank: int, batches: ShardedBatches, resumed_step: int, resumed_run_step: int
) -> Observer:
    """Writes metrics-<rank>.jsonl; records after the resumed step are dropped."""
    from knltrain.metrics import MetricsLog
    from knltrain.worker.run_files import MetricsObserver

    log = MetricsLog(
        run_folder,
        rank,
        steps_per_epoch=batches.steps_per_epoch,
        resumed_step=resumed_step,
        resumed_run_step=resumed_run_step,
    )
    return MetricsObserver(log)


def evaluates(
    config: RunConfig,
    dataset: Dataset,
    batches: ShardedBatches,
    backend: Backend,
    team: Team,
    total_steps: int,
) -> Observer:
    """Evaluates as often as `[evaluation]` says, and after the last step."""
    from knltrain.evaluation import Evaluator
    from knltrain.worker.periodic import DueSteps, EvaluationObserver

    period = config.evaluation.period(batches.steps_per_epoch)
    # The backend is compiled for a worker's share of the training batch, and takes no more.
    images = max(1, batches.images_per_worker)
    several = tells_each_class(config, dataset.test.labels)
    evaluator = Evaluator(
        dataset.test,
        backend,
        team,
        images,
        dataset.classes,
        several,
        dataset.test_crops,
        batches.shares,
    )
    return EvaluationObserver(evaluator, DueSteps(period, total_steps, config.evaluation.at_end))


def keeps_checkpoints(
    config: RunConfig,
    run_folder: Path,
    identity: RunIdentity,
    batches: ShardedBatches,
    team: Team,
    total_steps: int,
) -> Observer:
    """Writes checkpoints as often as `[checkpoint]` says, and after the last step."""
    from knltrain.checkpoint.writer import CheckpointWriter
    from knltrain.worker.periodic import CheckpointObserver, DueSteps

    period = config.checkpoint.period(batches.steps_per_epoch)
    writer = CheckpointWriter(run_folder, identity, team, config.checkpoint.keep)
    return CheckpointObserver(writer, DueSteps(period, total_steps, config.checkpoint.at_end))


def writes_plan(run_folder: Path) -> Observer:
    """Writes plan.json: the decisions that the backend made when it was built."""
    from knltrain.worker.run_files import PlanObserver

    return PlanObserver(run_folder)


def traces(config: RunConfig, run_folder: Path, rank: int) -> list[Observer]:
    """Writes trace-<rank>.json of the first `train.trace_steps` steps, if that is not 0."""
    steps = config.train.trace_steps
    if not steps:
        return []
    from knltrain.worker.tracing import TraceObserver

    return [TraceObserver(run_folder / f"trace-{rank}.json", rank, steps)]


def profiles(
    config: RunConfig, run_folder: Path, network: Network, images: int, threads: int
) -> list[Observer]:
    """Writes profile.json of `train.profile_steps` steps, if that is not 0.

    A worker takes `images` images a batch.
    """
    window = config.train.profile_steps
    if not window:
        return []
    from importlib.metadata import version

    from affinity import read_topology
    from knltrain import __version__
    from knltrain.assembly.factories import precision_of
    from knltrain.assembly.methods import strategy_of
    from knltrain.network.layer_slices import layer_sizes
    from knltrain.profile.costs import update_costs
    from knltrain.profile.exchanged import ExchangedPart, exchanged_part
    from knltrain.worker.profiling import ProfiledRun, ProfileObserver
    from vectorized_ops.shapes import FLOAT_BYTES

    batches, backend = config.train.iter_size, config.backend
    precision = precision_of(backend)
    facts = {
        "knltrain": __version__,
        "processor": read_topology().model,
        "network": {
            "name": network.name,
            "parameters": network.parameter_count,
            "packed_bytes": FLOAT_BYTES * network.packed_size,
            "training_flops_per_image": network.training_flops_per_image,
        },
        "backend": backend.name,
        "implementation": backend.implementation,
        "precision": precision,
        "engine": backend.engine,
        "versions": {name: version(name) for name in ("torch", "numba")},
        "batch_per_worker": images,
        "batches_per_step": batches,
        "workers": config.total_workers,
        "nodes": config.total_nodes,
        "threads_per_worker": threads,
        "method": config.exchange.method,
        "communication_period": config.exchange.communication_period,
        "workers_per_node": int(config.workers),
        **_between_nodes(config),
    }
    training_flops = images * batches * network.training_flops_per_image
    on_node = int(config.workers)

    def described(part: slice, method: Method, step: int) -> ExchangedPart:
        moved = _bytes_of_a_step(config, method, part.stop - part.start, step)
        return exchanged_part(network, part, images * batches, on_node, *moved)

    at_master = strategy_of(config).steps_at_master  # rank 0 steps within the exchange
    sizes = {} if at_master else dict(layer_sizes(network))
    updates = update_costs(config.optimizer.name, sizes)
    rounds = precision == "bfloat16" and not backend.emulate_bfloat16
    run = ProfiledRun(
        facts, images, batches, threads, on_node, training_flops, updates, described, rounds
    )
    return [ProfileObserver(run_folder, window, run)]


def _bytes_of_a_step(
    config: RunConfig, method: Method, size: int, step: int
) -> tuple[float | None, float | None]:
    """What a step sends of so many values by a node, and moves over one node's segment by a worker.

    Means over a period.
    """
    from vectorized_ops.shapes import FLOAT_BYTES

    if config.exchange.within_nodes == "device":
        return 0 if config.total_nodes == 1 else None, None
    if config.total_nodes == 1:
        return 0, method.segment_bytes(FLOAT_BYTES * size, config.total_workers, step)
    sent, period = _wire_bytes(config, method, size), method.period_at(step)
    assert period is not None
    return None if sent is None else sent / period, None


def _wire_bytes(config: RunConfig, method: Method, size: int) -> int | None:
    """What a node sends to exchange so many values; None where nodes differ, and for nothing."""
    if method.period is None or config.exchange.servers is not None:
        return None
    return method.strategy.sent_bytes(method, *_exchanged_bytes(config, size, method.comes_alone))


def _exchanged_bytes(config: RunConfig, size: int, comes_alone: bool) -> tuple[int, int | None]:
    """What a node sends of so many values; of that, what it reads in a visit by a wire format."""
    from knltrain.assembly.names import build_center_formats, build_wire_format
    from knltrain.communication.internode.wire.traffic import sent_bytes, visit_bytes

    nodes = config.total_nodes
    formats = build_center_formats(config, size) if comes_alone else None
    if formats is not None:
        return visit_bytes(formats, size, nodes)
    return sent_bytes(build_wire_format(config, size), size, nodes), None


def writes_result(
    config: RunConfig, run_folder: Path, network: str, data: str, workers: int, threads: int
) -> Observer:
    """Writes result.json: the run's result and settings; `network` and `data` are names."""
    from knltrain.worker.run_files import ResultObserver

    facts: dict[str, str | int | None] = {
        "network": network,
        "data": data,
        "method": config.exchange.method,
        "backend": config.backend.name,
        "workers": workers,
        "threads": threads,
        "batch": config.train.batch,
        "iter_size": config.train.iter_size,
        "epochs": config.train.epochs,
        "seed": config.seed,
        **_between_nodes(config),
    }
    return ResultObserver(run_folder, facts)


def _between_nodes(config: RunConfig) -> dict[str, str | int]:
    """The transport between nodes, and the bytes that each node sends to exchange all parameters.

    The number is None where nothing is exchanged, and where it differs from node to node: along
    trees, with a master, and where only some have the center.
    """
    nodes = config.total_nodes
    if nodes == 1:
        return {}
    from knltrain.assembly.names import network_size, plain_method

    size = network_size(config)
    found: dict[str, str | int] = {
        "nodes": nodes,
        "between_nodes": config.exchange.between_nodes,
        "wire_format": config.exchange.wire_format,
    }
    sent = _wire_bytes(config, plain_method(config, config.total_workers), size)
    return found if sent is None else {**found, "exchange_bytes": sent}
