"""One worker with all that belongs to it, at its first step or at that of a checkpoint."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from knltrain.build.names import (
    build_backend,
    build_dataset,
    build_method,
    build_network,
    build_optimizer,
)
from knltrain.build.observers import evaluates, keeps_checkpoints, logs_metrics, writes_result
from knltrain.config import RunConfig, to_toml
from knltrain.errors import CheckpointError, ConfigError
from knltrain.network.network import Network

if TYPE_CHECKING:
    from knltrain.checkpoint import RunIdentity, WorkerState
    from knltrain.data.dataset import Dataset
    from knltrain.exchange.transport import Transport
    from knltrain.optimizers.optimizer import Optimizer
    from knltrain.worker import Observer, Worker


def build_worker(
    config: RunConfig,
    transport: Transport,
    *,
    run_folder: Path,
    threads: int,
    resume: bool = False,
    observers: Sequence[Observer] = (),
) -> Worker:
    """One worker with all that belongs to it; `transport` says which, and of how many.

    With `resume` it goes on from the newest checkpoint in `run_folder`. `observers` hear of every
    moment before metrics, evaluation and checkpoints do. Raises `ConfigError`, `DataError` or
    `CheckpointError`.
    """
    from knltrain.data.order import ShardedBatches
    from knltrain.optimizers.learning_rate import learning_rate_at
    from knltrain.worker import Worker

    network, dataset = build_network(config), build_dataset(config)
    _check_fit(network, dataset)
    rank, workers = transport.rank, transport.workers
    batches = ShardedBatches(
        dataset.train, config.train.batch, rank, workers, config.seed, config.data.shift_pixels
    )
    total_steps = config.train.steps or (config.train.epochs or 0) * batches.steps_per_epoch
    optimizer = build_optimizer(config, network.packed_size)
    identity = _identity(config, network, workers)
    start = _start(identity, optimizer, rank, run_folder if resume else None)
    _check_length(start.step, total_steps)
    backend = build_backend(config, network, batches.images_per_worker, threads)
    own_observers = (
        logs_metrics(config, run_folder, rank, batches, start.step),
        evaluates(config, dataset, batches, backend, transport, total_steps),
        keeps_checkpoints(config, run_folder, identity, batches, transport, total_steps),
        writes_result(config, run_folder, workers, threads, dataset),
    )
    return Worker(
        start=start,
        total_steps=total_steps,
        batches=batches,
        image_shape=network.input_shape,
        backend=backend,
        optimizer=optimizer,
        learning_rate=lambda step: learning_rate_at(config.learning_rate, step, total_steps),
        method=build_method(config, workers),
        transport=transport,
        observers=(*observers, *own_observers),
    )


def _check_fit(network: Network, dataset: Dataset) -> None:
    given = (dataset.train.image_shape, (dataset.classes,))
    taken = (network.input_shape, network.shapes[-1])
    if given != taken:
        raise ConfigError(
            f"data set {dataset.name!r} has images (H, W, C) = {given[0]} in {dataset.classes} "
            f"classes, but network {network.name!r} takes {taken[0]} and has outputs {taken[1]}: "
            "choose another data.name or network.name"
        )


def _identity(config: RunConfig, network: Network, workers: int) -> RunIdentity:
    from knltrain.checkpoint import RunIdentity

    return RunIdentity(
        network=network,
        workers=workers,
        method=config.exchange.method,
        seed=config.seed,
        config_hash=hashlib.sha256(to_toml(config).encode()).hexdigest(),
    )


def _start(
    identity: RunIdentity, optimizer: Optimizer, rank: int, resumed: Path | None
) -> WorkerState:
    """Where a worker begins: at its seed's parameters, or at the newest checkpoint in `resumed`."""
    from knltrain.checkpoint import (
        WorkerState,
        latest_checkpoint,
        load_checkpoint,
        load_worker_state,
    )
    from knltrain.network.parameters import ParameterVector

    if resumed is None:
        parameters = ParameterVector(identity.network)
        parameters.initialise(identity.seed)
        return WorkerState(0, parameters.packed, parameters.packed, {}, {})
    folder = latest_checkpoint(resumed)
    if folder is None:
        raise CheckpointError(
            f"{resumed}: no checkpoint to resume from: expected a folder checkpoint-<step>; "
            "start a new run"
        )
    checkpoint = load_checkpoint(folder, identity.network)
    return load_worker_state(
        checkpoint,
        rank,
        workers=identity.workers,
        method=identity.method,
        optimizer_state=optimizer.state,
    )


def _check_length(done_steps: int, total_steps: int) -> None:
    if done_steps > total_steps:
        raise ConfigError(
            f"the run is to end after {total_steps} steps, but its checkpoint is already at step "
            f"{done_steps}: raise train.epochs or train.steps"
        )
