"""Builds one worker with all its parts, at its first step or at that of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from affinity import arena
from knltrain.assembly.data_pool import open_ring, opened_dataset, staged_batches
from knltrain.assembly.kernels import compile_kernels
from knltrain.assembly.losses import check_labels, with_balanced_weights
from knltrain.assembly.names import (
    build_backend,
    build_method,
    build_network,
    build_optimizer,
    build_space,
)
from knltrain.assembly.observers import (
    evaluates,
    keeps_checkpoints,
    logs_metrics,
    profiles,
    traces,
    writes_plan,
    writes_result,
)
from knltrain.assembly.whole_run import (
    check_fit,
    check_length,
    identity_of,
    newest_checkpoint,
    starting_parameters,
    starting_state,
    total_steps,
)
from knltrain.config import RunConfig

if TYPE_CHECKING:
    from knltrain.backends.backend import Backend
    from knltrain.checkpoint.contents import RunIdentity, WorkerState
    from knltrain.clocks import Clocks
    from knltrain.data.dataset import Dataset
    from knltrain.data.order import ShardedBatches
    from knltrain.exchange.strategies.strategy import Strategy
    from knltrain.exchange.transports.board import RequestBoard
    from knltrain.exchange.transports.team import Team
    from knltrain.input.batch_feed import BatchFeed
    from knltrain.optimizers.optimizer import Optimizer
    from knltrain.vectors import FloatArray
    from knltrain.worker.loop import Worker
    from knltrain.worker.observer import Observer
    from knltrain.worker.requests import Requests


def build_worker(
    config: RunConfig,
    team: Team,
    *,
    run_folder: Path,
    threads: int,
    resume: bool = False,
    observers: Sequence[Observer] = (),
    requests: tuple[int, int] | None = None,
    data_fd: int | None = None,
    batches_ahead: tuple[int, int, int] | None = None,
    initial: tuple[int, int] | None = None,
) -> Worker:
    """One worker with all its parts; `team` says its rank, and the number of workers.

    With `resume` it goes on from the newest checkpoint in `run_folder`. `observers` are called
    before those of metrics, evaluation and checkpoints. `requests` names the board of its process's
    workers, `data_fd` the node's copy of the data set, `batches_ahead` those that a data pool
    makes, `initial` the parameters of a new run, see `WorkerIdentity`. Raises `ConfigError`,
    `DataError` or `CheckpointError`.
    """
    from knltrain.clocks import Clocks
    from knltrain.exchange.transports.board import RequestBoard, RunLoss
    from knltrain.optimizers.optimizer import LayerwiseOptimizer, OptimizerPlaceholder
    from knltrain.worker.loop import Worker

    if not config.backend.is_plain:
        from knltrain.assembly.own_backend import with_own_backend

        config = with_own_backend(config, team.rank)
    clocks = Clocks.over(team.clocks)
    task = _task(config, team, clocks, data_fd)
    network, batches = task.identity.network, task.batches
    config = with_balanced_weights(config, task.dataset)
    space = build_space(config)
    if config.exchange.within_nodes != "segment":
        from knltrain.assembly.device_exchange import exchanging_on_devices

        team = exchanging_on_devices(config, team, space)
    optimizer = build_optimizer(config, network, space)
    images, copies = max(1, batches.images_per_worker), task.dataset.train.are_copies
    for progress in compile_kernels(config, images, threads, copies):
        for observer in observers:
            observer.compiling(progress)
    paced = _with_own_pace(config, team, task, threads, run_folder)
    strategy = _strategy(paced, team, task, optimizer)
    strategy.space = space
    if isinstance(optimizer, LayerwiseOptimizer):
        optimizer = OptimizerPlaceholder(optimizer if team.rank == 0 else None)
    backend, balancing = _backend(config, run_folder, task, strategy, threads)
    resumed = run_folder if resume else None
    since, start = _start(config, task, optimizer, strategy, resumed, initial)
    own = _own_observers(config, run_folder, team, threads, task, backend, (start.step, since))
    fd, slot = requests or (None, 0)
    board = None if fd is None else RequestBoard.attach(fd)
    return Worker(
        start=start,
        total_steps=task.steps,
        first_step=config.train.first_step,
        batches=batches,
        image_shape=network.input_shape,
        backend=backend,
        optimizer=optimizer,
        learning_rate=task.learning_rate,
        strategy=strategy,
        termination=config.exchange.termination,
        clocks=clocks,
        requests=_requests(config, strategy, board, slot),
        run_loss=RunLoss(None if board is None else board.losses, slot),
        observers=(*observers, *own, *balancing),
        feed=_feed(config, task, team, batches_ahead),
    )


class _Task(NamedTuple):
    """A worker's task: its run, its images, and the number and size of steps."""

    identity: RunIdentity
    dataset: Dataset
    batches: ShardedBatches
    steps: int
    learning_rate: Callable[[int], float]


def _task(config: RunConfig, team: Team, clocks: Clocks, data_fd: int | None) -> _Task:
    from knltrain.data.order import EpochOrders, ShardedBatches
    from knltrain.optimizers.learning_rate import learning_rate_at

    network, workers = build_network(config), team.workers
    with arena("data"), clocks.reading:
        dataset = opened_dataset(config, data_fd)
        check_fit(network, dataset)
        check_labels(config, network, dataset)
        # What is fetched ahead may be of the next epoch.
        epochs = 2 if config.data.memory == "distributed" else 1
        batches = ShardedBatches(
            dataset.train,
            config.train.batch,
            team.rank,
            workers,
            config.seed,
            iter_size=config.train.iter_size,
            orders=EpochOrders(dataset.train, config.seed, epochs),
            shares=None if config.balance.is_equal else config.images_of_each,
        )
    steps = total_steps(config, batches.steps_per_epoch)

    def learning_rate(step: int) -> float:
        return learning_rate_at(config.learning_rate, step, steps)

    identity = identity_of(config, network, workers, dataset.contents)
    return _Task(identity, dataset, batches, steps, learning_rate)


def _backend(
    config: RunConfig, run_folder: Path, task: _Task, strategy: Strategy, threads: int
) -> tuple[Backend, list[Observer]]:
    """A worker's backend for its share of a batch, and what finds and changes that share."""
    method, team, batches = strategy.method, strategy.team, task.batches
    network = task.identity.network
    if config.balance.is_plain:
        images = batches.images_per_worker
        return build_backend(config, network, images, threads, strategy.space), []
    from knltrain.assembly.balancing import balances, build_balanced_backend, first_balance

    balance = first_balance(config, team, method, batches.label_shape, threads)
    batches.share_out(balance.shares)
    images = balance.most_images(team.rank)
    backend = build_balanced_backend(config, network, images, threads, team.rank, strategy.space)
    return backend, balances(config, run_folder, balance, method)


def _with_own_pace(
    config: RunConfig, team: Team, task: _Task, threads: int, run_folder: Path
) -> RunConfig:
    if not config.balance.has_paces:
        return config
    from knltrain.assembly.paces import with_own_pace

    return with_own_pace(config, team, task.batches.label_shape, threads, run_folder)


def _strategy(config: RunConfig, team: Team, task: _Task, optimizer: Optimizer) -> Strategy:
    from knltrain.exchange.strategies.strategy import MasterStep, strategy_in
    from knltrain.optimizers.optimizer import LayerwiseOptimizer
    from knltrain.worker.termination import MEETING_SECONDS

    method = build_method(config, team.workers, task.learning_rate)
    if not isinstance(optimizer, LayerwiseOptimizer):
        return strategy_in(method, team)

    def take(step: int, layer: int, weights: FloatArray, gradient: FloatArray) -> None:
        optimizer.step_part(layer, weights, gradient, task.learning_rate(step))

    def take_all(step: int, weights: FloatArray, gradient: FloatArray) -> None:
        optimizer.step(weights, gradient, task.learning_rate(step))

    team.barrier(MEETING_SECONDS)  # all make their exchange at once; one may still read images
    return strategy_in(method, team, MasterStep(take, take_all, optimizer.is_whole))


def _feed(
    config: RunConfig, task: _Task, team: Team, ahead: tuple[int, int, int] | None
) -> BatchFeed | None:
    """The batches that a data pool makes, or whose pictures are fetched ahead from other nodes.

    None where the worker makes its own.
    """
    batches, limit_seconds = task.batches, config.exchange.timeout_seconds
    if ahead is None and config.data.memory == "node":
        return None
    if ahead is None:
        return staged_batches(config, task.dataset, batches, team.check)
    from knltrain.input.batches_ahead import BatchesAhead

    fd, worker, workers = ahead
    ring = open_ring(config, fd, workers, task.dataset, max(config.images_of_each))
    images, iter_size = batches.images_per_worker, batches.iter_size
    return BatchesAhead(ring, worker, iter_size, team.check, limit_seconds, images)


def _requests(
    config: RunConfig, strategy: Strategy, board: RequestBoard | None, slot: int
) -> Requests:
    from knltrain.worker.requests import BoardRequests, NoRequests

    if board is None:
        return NoRequests()
    method, limit = strategy.method, config.exchange.timeout_seconds
    return BoardRequests(board, slot, strategy.team, method, limit)


def _own_observers(
    config: RunConfig,
    run_folder: Path,
    team: Team,
    threads: int,
    task: _Task,
    backend: Backend,
    since: tuple[int, int],
) -> list[Observer]:
    """The observers of the configuration; `since` are the worker's and the run's steps so far."""
    batches, steps = task.batches, task.steps
    return [
        writes_plan(run_folder),
        logs_metrics(run_folder, team.rank, batches, *since),
        evaluates(config, task.dataset, batches, backend, team, steps),
        keeps_checkpoints(config, run_folder, task.identity, batches, team, steps),
        *traces(config, run_folder, team.rank),
        writes_result(
            config,
            run_folder,
            task.identity.network.name,
            task.dataset.name,
            team.workers,
            threads,
        ),
        # The last, as it may fail.
        *profiles(config, run_folder, task.identity.network, batches.images_per_worker, threads),
    ]


def _start(
    config: RunConfig,
    task: _Task,
    optimizer: Optimizer,
    strategy: Strategy,
    resumed: Path | None,
    initial: tuple[int, int] | None,
) -> tuple[int, WorkerState]:
    """The run's step and a worker's state at the beginning.

    Parameters are drawn from the seed or those of a file, or come from the newest checkpoint in
    `resumed`. The
    optimizer's state is 0, of a file, or of that checkpoint.
    """
    from knltrain.checkpoint.contents import WorkerState

    identity = task.identity
    if resumed is None:
        parameters = starting_parameters(config, identity.network, initial)
        step, kept = config.train.first_step, starting_state(config, identity.network)
        return step, WorkerState(step, parameters.packed, parameters.packed, kept, {})
    from knltrain.checkpoint.reader import load_worker_state

    checkpoint = newest_checkpoint(resumed, identity.network)
    state = load_worker_state(
        checkpoint,
        strategy.team.rank,
        identity=identity,
        optimizer_state=optimizer.state,
        exchange_state=strategy.state(),
    )
    check_length(checkpoint.step, task.steps)
    return checkpoint.step, state
