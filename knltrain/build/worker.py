"""One worker with all that belongs to it, at its first step or at that of a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from affinity import arena
from knltrain.build.names import (
    build_backend,
    build_dataset,
    build_method,
    build_network,
    build_optimizer,
)
from knltrain.build.observers import (
    evaluates,
    keeps_checkpoints,
    logs_metrics,
    writes_plan,
    writes_result,
)
from knltrain.build.whole_run import (
    check_fit,
    check_length,
    identity_of,
    newest_checkpoint,
    total_steps,
)
from knltrain.config import RunConfig

if TYPE_CHECKING:
    from knltrain.checkpoint import RunIdentity, WorkerState
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

    network = build_network(config)
    rank, workers = transport.rank, transport.workers
    with arena("data"):
        dataset = build_dataset(config)
        check_fit(network, dataset)
        batches = ShardedBatches(
            dataset.train, config.train.batch, rank, workers, config.seed, config.data.shift_pixels
        )
    steps = total_steps(config, batches.steps_per_epoch)
    optimizer = build_optimizer(config, network)
    identity = identity_of(config, network, workers)
    start = _start(identity, optimizer, rank, run_folder if resume else None)
    check_length(start.step, steps)
    backend = build_backend(config, network, batches.images_per_worker, threads)
    own_observers = (
        writes_plan(run_folder),
        logs_metrics(config, run_folder, rank, batches, start.step),
        evaluates(config, dataset, batches, backend, transport, steps),
        keeps_checkpoints(config, run_folder, identity, batches, transport, steps),
        writes_result(config, run_folder, workers, threads),
    )
    return Worker(
        start=start,
        total_steps=steps,
        batches=batches,
        image_shape=network.input_shape,
        backend=backend,
        optimizer=optimizer,
        learning_rate=lambda step: learning_rate_at(config.learning_rate, step, steps),
        method=build_method(config, workers),
        transport=transport,
        observers=(*observers, *own_observers),
    )


def _start(
    identity: RunIdentity, optimizer: Optimizer, rank: int, resumed: Path | None
) -> WorkerState:
    """Where a worker begins: at its seed's parameters, or at the newest checkpoint in `resumed`."""
    from knltrain.checkpoint import WorkerState, load_worker_state
    from knltrain.network.parameters import ParameterVector

    if resumed is None:
        parameters = ParameterVector(identity.network)
        parameters.initialise(identity.seed)
        return WorkerState(0, parameters.packed, parameters.packed, {}, {})
    checkpoint = newest_checkpoint(resumed, identity.network)
    return load_worker_state(checkpoint, rank, identity=identity, optimizer_state=optimizer.state)
