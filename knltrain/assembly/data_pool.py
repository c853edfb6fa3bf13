"""Builds what workers and a data pool share: the data set, the rings of batches, and the pool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING

from knltrain.assembly.names import build_dataset
from knltrain.assembly.whole_run import total_steps
from knltrain.config import RunConfig

if TYPE_CHECKING:
    from knltrain.cluster.data_pool import DataPoolIdentity
    from knltrain.data.dataset import Batch, Dataset
    from knltrain.data.order import ShardedBatches
    from knltrain.input.batch_feed import BatchFeed
    from knltrain.input.batch_pool import BatchPool
    from knltrain.input.batch_ring import BatchRing
    from knltrain.input.distributed.records import DistributedRecords
    from knltrain.input.distributed.window import PartWindow

_KEPT_EPOCHS = 4
"""Orders of so many epochs at most: workers that do not wait for each other may be epochs apart."""


def opened_dataset(config: RunConfig, data_fd: int | None) -> Dataset:
    """The data set as a worker or a data pool has it: the node's copy, or opened from its files."""
    if data_fd is None:
        return build_dataset(config)
    from knltrain.input.node_data import held_dataset

    return held_dataset(data_fd)


def staged_batches(
    config: RunConfig, dataset: Dataset, batches: ShardedBatches, check: Callable[[], None]
) -> BatchFeed | None:
    """Batches whose pictures are fetched ahead; None where no other node holds any of them.

    They are read by MPI where this worker is a rank of it (collective over all that are).
    """
    from knltrain.input.distributed.sources import records_of

    halves = [records_of(half.source) for half in (dataset.train, dataset.test)]
    records = [each for each in halves if each is not None]
    if not records:
        return None
    from knltrain.input.distributed.staging import StagedBatches

    limit_seconds, window = config.exchange.timeout_seconds, None
    if config.exchange.between_nodes == "mpi":
        window = _window(records, limit_seconds, check)
        for each in records:
            each.window = window
    shape = dataset.train.image_shape
    return StagedBatches(batches, records[0], shape, check, limit_seconds, window)


def _window(
    records: Sequence[DistributedRecords], limit_seconds: float, check: Callable[[], None]
) -> PartWindow | None:
    from knltrain.communication.mpi.joining import joined_mpi
    from knltrain.input.distributed.window import PartWindow

    if (mpi := joined_mpi()) is None:
        return None
    parts, divisions = [each.part for each in records], [each.division for each in records]
    return PartWindow(mpi, records[0].doors.node, parts, divisions, limit_seconds, check)


def open_ring(
    config: RunConfig, fd: int, workers: int, dataset: Dataset, images_per_worker: int
) -> BatchRing:
    """The rings behind an inherited file descriptor."""
    from knltrain.input.batch_ring import BatchRing
    from knltrain.input.batch_shape import BatchShape

    shape = BatchShape.of(dataset.train, images_per_worker)
    return BatchRing(fd, workers, config.data.batches_ahead, shape)


def build_pool(
    config: RunConfig,
    identity: DataPoolIdentity,
    entered: Callable[[int], AbstractContextManager[None]],
) -> BatchPool:
    """The pool of a process; each of its threads enters `entered` with its number.

    Raises what reading the data set raises.
    """
    from knltrain.data.order import EpochOrders, ShardedBatches
    from knltrain.input.batch_pool import BatchPool

    dataset, chosen = opened_dataset(config, identity.data_fd), config.train
    workers = identity.workers
    orders = EpochOrders(dataset.train, config.seed, min(1 + workers, _KEPT_EPOCHS))
    batches = [
        ShardedBatches(
            dataset.train,
            chosen.batch,
            identity.first_rank + worker,
            identity.all_workers,
            config.seed,
            iter_size=chosen.iter_size,
            orders=orders,
            shares=config.images_of_each,
        )
        for worker in range(workers)
    ]
    most = max(config.images_of_each)
    ring = open_ring(config, identity.batches_fd, workers, dataset, most)
    last = None
    if config.exchange.termination == "each":  # else workers may take more steps than the run has
        last = total_steps(config, batches[0].steps_per_epoch) * chosen.iter_size - 1
    fills = [partial(_fill, each) for each in batches]
    return BatchPool(ring, fills, identity.threads, entered, last)


def _fill(batches: ShardedBatches, number: int, out: Batch) -> None:
    """Write batch `number` of the whole run."""
    step, within = divmod(number, batches.iter_size)
    batches.fill(step, out.first(batches.images_per_worker), within)
