"""What can be said of a run before any of its workers is started: its length, and what is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from affinity import Need
from knltrain.build.names import build_dataset, build_network, check_method
from knltrain.build.needs import memory_needs
from knltrain.config import RunConfig
from knltrain.errors import CheckpointError, ConfigError
from knltrain.network.network import Network

if TYPE_CHECKING:
    from knltrain.checkpoint import Checkpoint, RunIdentity
    from knltrain.data.dataset import Dataset


@dataclass(frozen=True, slots=True)
class RunSize:
    """How long a run takes, and how much memory each of its workers needs."""

    total_steps: int
    needs: tuple[Need, ...]


def check_run(config: RunConfig) -> RunSize:
    """The size of a run whose workers are decided.

    Raises the `ConfigError` or `DataError` that its workers would raise.
    """
    from knltrain.backends.cpu.micro_batch import check_micro_batch
    from knltrain.data.order import ShardedBatches

    network, dataset, workers = build_network(config), build_dataset(config), int(config.workers)
    check_fit(network, dataset)
    check_method(config, workers)
    batches = ShardedBatches(dataset.train, config.train.batch, 0, workers, config.seed)
    images, micro_batch = batches.images_per_worker, config.backend.micro_batch
    check_micro_batch(network, images, micro_batch)
    at_a_time = 0 if micro_batch == "auto" else micro_batch
    return RunSize(
        total_steps(config, batches.steps_per_epoch),
        memory_needs(
            network, dataset, images, config.data.shift_pixels, at_a_time, config.optimizer.name
        ),
    )


def check_resumable(config: RunConfig, run_folder: Path, total_steps: int) -> None:
    """Refuse to go on with a run that cannot: `CheckpointError` or `ConfigError`."""
    from knltrain.checkpoint import check_identity

    identity = identity_of(config, build_network(config), int(config.workers))
    checkpoint = newest_checkpoint(run_folder, identity.network)
    check_identity(checkpoint, identity)
    check_length(checkpoint.step, total_steps)


def check_fit(network: Network, dataset: Dataset) -> None:
    """Refuse a data set whose images or classes `network` does not take: `ConfigError`."""
    given = (dataset.train.image_shape, (dataset.classes,))
    taken = (network.input_shape, network.output_shape)
    if given != taken:
        raise ConfigError(
            f"data set {dataset.name!r} has images (H, W, C) = {given[0]} in {dataset.classes} "
            f"classes, but network {network.name!r} takes {taken[0]} and has outputs {taken[1]}: "
            "choose another data.name or network.name"
        )


def total_steps(config: RunConfig, steps_per_epoch: int) -> int:
    """Length of the run in steps, from train.steps or train.epochs."""
    return config.train.steps or (config.train.epochs or 0) * steps_per_epoch


def check_length(done_steps: int, total_steps: int) -> None:
    """Refuse to end a run before the step that it has come to: `ConfigError`."""
    if done_steps > total_steps:
        raise ConfigError(
            f"the run is to end after {total_steps} steps, but its checkpoint is already at step "
            f"{done_steps}: raise train.epochs or train.steps"
        )


def identity_of(config: RunConfig, network: Network, workers: int) -> RunIdentity:
    """What the checkpoints of the run say about it."""
    from knltrain.checkpoint import RunIdentity

    return RunIdentity(network, workers, config.exchange.method, config.seed)


def newest_checkpoint(run_folder: Path, network: Network) -> Checkpoint:
    """The checkpoint to go on from; `CheckpointError` if there is none or it is damaged."""
    from knltrain.checkpoint import latest_checkpoint, load_checkpoint

    folder = latest_checkpoint(run_folder)
    if folder is None:
        raise CheckpointError(
            f"'{run_folder}' has no checkpoint to resume from: start a new run, with "
            "checkpoint.every_epochs above 0 if it is to be resumable before its end"
        )
    return load_checkpoint(folder, network)
