"""From a run's configuration to the objects that carry it out.

The only place where classes are picked by name. Nothing heavy is imported before the name that
needs it is picked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from knltrain.config import DataConfig, RunConfig, to_toml, with_workers
from knltrain.errors import CheckpointError, ConfigError, unknown_name
from knltrain.network.lenet import lenet
from knltrain.network.network import Network

if TYPE_CHECKING:
    from knltrain.backends.backend import Backend, FloatArray
    from knltrain.checkpoint import RunIdentity, WorkerState
    from knltrain.data.dataset import Dataset
    from knltrain.data.order import ShardedBatches
    from knltrain.exchange.method import Method
    from knltrain.exchange.segment import Segment
    from knltrain.exchange.transport import Transport
    from knltrain.optimizers.optimizer import Optimizer
    from knltrain.optimizers.sgd import UpdateKernel
    from knltrain.worker import Observer, Worker

Choice = TypeVar("Choice")

LEAST_IMAGES = 16
"""Images that "auto" gives each worker at least: with fewer, lanes of its vectors stay empty."""

BETA = 0.9
"""β = P α of Zhang, Choromanska, LeCun 2015: the moving rate is 0.9 / workers if none is given."""


@dataclass(frozen=True, slots=True)
class Kernels:
    """The arithmetic that optimizers and exchange rules do on packed vectors."""

    sgd_update: UpdateKernel
    synchronous_elastic_update: Callable[[FloatArray, FloatArray, float], None]
    synchronous_average: Callable[[FloatArray, FloatArray], None]


def check_names(config: RunConfig) -> None:
    """Refuse names that nothing is known by, before any process is started: `ConfigError`."""
    _pick("network.name", config.network.name, NETWORKS)
    _pick("data.name", config.data.name, DATASETS)
    _pick("optimizer.name", config.optimizer.name, OPTIMIZERS)
    _pick("exchange.method", config.exchange.method, METHODS)
    _pick("backend.name", config.backend.name, BACKENDS)
    _pick("backend.implementation", config.backend.implementation, KERNELS)


def resolve_workers(config: RunConfig, physical_cores: int) -> int:
    """Number of workers: as configured, or for "auto" as many as cores that can share a batch.

    The batch always divides evenly among them: a `RunConfig` accepts no other number. "auto" gives
    each at least 16 images, one full vector.
    """
    if config.workers != "auto":
        return config.workers
    batch = config.train.batch
    most = max(1, min(physical_cores, batch // LEAST_IMAGES))
    return max(n for n in range(1, most + 1) if batch % n == 0)


def resolved(config: RunConfig, physical_cores: int) -> RunConfig:
    """The same run with nothing left open: its workers, and the moving rate that follows."""
    config = with_workers(config, resolve_workers(config, physical_cores))
    exchange = config.exchange
    if exchange.method != "sync_easgd" or exchange.moving_rate is not None:
        return config
    moving_rate = BETA / int(config.workers)
    return config.model_copy(
        update={"exchange": exchange.model_copy(update={"moving_rate": moving_rate})}
    )


def network_size(config: RunConfig) -> int:
    """Length of the packed vectors in float32 values, which sizes the shared segment."""
    return build_network(config).packed_size


def build_network(config: RunConfig) -> Network:
    """The network that `network.name` stands for."""
    return network_named(config.network.name)


def network_named(name: str) -> Network:
    """The network known by `name`; `ConfigError` if there is none."""
    return _pick("network.name", name, NETWORKS)()


def build_dataset(config: RunConfig) -> Dataset:
    """The images of `[data]`, read and normalised."""
    return _pick("data.name", config.data.name, DATASETS)(config.data)


def build_backend(config: RunConfig, network: Network, batch: int, threads: int) -> Backend:
    """What `[backend]` names, made ready for batches of up to `batch` images."""
    return _pick("backend.name", config.backend.name, BACKENDS)(config, network, batch, threads)


def build_optimizer(config: RunConfig, size: int) -> Optimizer:
    """The optimizer of `[optimizer]` for packed vectors of `size` values."""
    return _pick("optimizer.name", config.optimizer.name, OPTIMIZERS)(config, size)


def build_method(config: RunConfig, workers: int) -> Method:
    """The method of `[exchange]` for that many workers."""
    return _pick("exchange.method", config.exchange.method, METHODS)(config, workers)


def build_transport(config: RunConfig, segment: Segment | None, rank: int) -> Transport:
    """A worker's way to its peers: through the node's `segment`, or without one to itself alone."""
    if segment is None:
        from knltrain.exchange.loopback import Loopback

        return Loopback(network_size(config))
    from knltrain.exchange.node_shared import NodeShared

    return NodeShared(segment, rank, config.exchange.timeout_seconds)


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
        _logs_metrics(config, run_folder, rank, batches, start.step),
        _evaluates(config, dataset, batches, backend, transport, total_steps),
        _keeps_checkpoints(config, run_folder, identity, batches, transport, total_steps),
        _writes_result(config, run_folder, workers, threads, dataset),
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


def _pick(key: str, name: str, known: Mapping[str, Choice]) -> Choice:
    try:
        return known[name]
    except KeyError:
        raise ConfigError(unknown_name(key, name, known)) from None


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


def _logs_metrics(
    config: RunConfig, run_folder: Path, rank: int, batches: ShardedBatches, resumed_step: int
) -> Observer:
    from knltrain.metrics import MetricsLog
    from knltrain.worker import LogsMetrics

    log = MetricsLog(
        run_folder,
        rank,
        images_per_step=config.train.batch,
        steps_per_epoch=batches.steps_per_epoch,
        resumed_step=resumed_step,
    )
    return LogsMetrics(log)


def _evaluates(
    config: RunConfig,
    dataset: Dataset,
    batches: ShardedBatches,
    backend: Backend,
    transport: Transport,
    total_steps: int,
) -> Observer:
    from knltrain.evaluation import Evaluator
    from knltrain.worker import DueSteps, Evaluates

    # The backend is compiled for the training batch: an evaluation cannot take more at once.
    chunk = min(config.evaluation.batch, batches.images_per_worker)
    period = config.evaluation.every_epochs * batches.steps_per_epoch
    evaluator = Evaluator(dataset.test, backend, transport, chunk)
    return Evaluates(evaluator, DueSteps(period, total_steps))


def _keeps_checkpoints(
    config: RunConfig,
    run_folder: Path,
    identity: RunIdentity,
    batches: ShardedBatches,
    transport: Transport,
    total_steps: int,
) -> Observer:
    from knltrain.checkpoint import CheckpointWriter
    from knltrain.worker import DueSteps, KeepsCheckpoints

    period = config.checkpoint.every_epochs * batches.steps_per_epoch
    writer = CheckpointWriter(run_folder, identity, transport, config.checkpoint.keep)
    return KeepsCheckpoints(writer, DueSteps(period, total_steps))


def _writes_result(
    config: RunConfig, run_folder: Path, workers: int, threads: int, dataset: Dataset
) -> Observer:
    from knltrain.worker import WritesResult

    facts: dict[str, str | int | None] = {
        "network": config.network.name,
        "data": dataset.name,
        "method": config.exchange.method,
        "backend": config.backend.name,
        "workers": workers,
        "threads": threads,
        "batch": config.train.batch,
        "epochs": config.train.epochs,
        "seed": config.seed,
    }
    return WritesResult(run_folder, facts)


def _digits(config: DataConfig) -> Dataset:
    from knltrain.data.digits import load_digits

    return load_digits(config.train_images, config.test_images)


def _mnist(config: DataConfig) -> Dataset:
    from knltrain.data.mnist import load_mnist

    if config.root is None:
        raise ConfigError(
            "data.root is missing: expected the folder with MNIST's idx files, as in "
            "--set data.root=/data/mnist"
        )
    return load_mnist(Path(config.root), config.train_images, config.test_images)


def _cpu_backend(config: RunConfig, network: Network, batch: int, threads: int) -> Backend:
    from knltrain.backends.cpu import CpuBackend

    return CpuBackend(network, batch, threads, config.backend.implementation)


def _torch_backend(_config: RunConfig, network: Network, batch: int, threads: int) -> Backend:
    from knltrain.backends.torch_backend import TorchBackend

    return TorchBackend(network, batch, threads)


def _numba_kernels() -> Kernels:
    from vectorized_ops.numba.elastic import synchronous_average, synchronous_elastic_update
    from vectorized_ops.numba.sgd import sgd_update

    return Kernels(sgd_update, synchronous_elastic_update, synchronous_average)


def _reference_kernels() -> Kernels:
    from vectorized_ops.reference.elastic import synchronous_average, synchronous_elastic_update
    from vectorized_ops.reference.sgd import sgd_update

    return Kernels(sgd_update, synchronous_elastic_update, synchronous_average)


def _kernels(config: RunConfig) -> Kernels:
    return _pick("backend.implementation", config.backend.implementation, KERNELS)()


def _sgd(config: RunConfig, size: int) -> Optimizer:
    from knltrain.optimizers.sgd import SGD

    chosen = config.optimizer
    update = _kernels(config).sgd_update
    return SGD(size, chosen.momentum, chosen.weight_decay, chosen.nesterov, update)


def _sync_easgd(config: RunConfig, workers: int) -> Method:
    from knltrain.exchange.easgd import EASGD
    from knltrain.exchange.method import Method

    moving_rate = config.exchange.moving_rate or BETA / workers
    rule = EASGD(moving_rate, workers, _kernels(config).synchronous_elastic_update)
    return Method("sync_easgd", rule, "parameters", config.exchange.communication_period)


def _sync_sgd(config: RunConfig, workers: int) -> Method:
    from knltrain.exchange.averaging import ModelAveraging
    from knltrain.exchange.method import Method

    rule = ModelAveraging(workers, _kernels(config).synchronous_average)
    return Method("sync_sgd", rule, "gradient", config.exchange.communication_period)


def _no_exchange(config: RunConfig, workers: int) -> Method:
    """Every worker for itself; an evaluation then measures each model on its worker's share."""
    return replace(_sync_sgd(config, workers), name="none", period=None)


NETWORKS: dict[str, Callable[[], Network]] = {"lenet": lenet}
DATASETS: dict[str, Callable[[DataConfig], Dataset]] = {"digits": _digits, "mnist": _mnist}
BACKENDS: dict[str, Callable[[RunConfig, Network, int, int], Backend]] = {
    "cpu": _cpu_backend,
    "torch": _torch_backend,
}
OPTIMIZERS: dict[str, Callable[[RunConfig, int], Optimizer]] = {"sgd": _sgd}
METHODS: dict[str, Callable[[RunConfig, int], Method]] = {
    "sync_easgd": _sync_easgd,
    "sync_sgd": _sync_sgd,
    "none": _no_exchange,
}
# oneDNN computes networks; optimizers and exchange rules beside it run Numba's kernels.
KERNELS: dict[str, Callable[[], Kernels]] = {
    "numba": _numba_kernels,
    "onednn": _numba_kernels,
    "reference": _reference_kernels,
}
