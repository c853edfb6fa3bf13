"""What a data pool is built of, and that workers find the same data set and rings."""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from knltrain.assembly import build_dataset
from knltrain.assembly.data_pool import build_pool, open_ring, opened_dataset
from knltrain.cluster.data_pool import DataPoolIdentity
from knltrain.config import RunConfig
from knltrain.data.dataset import Batch
from knltrain.data.order import ShardedBatches
from knltrain.input.batch_ring import BatchRing
from knltrain.input.batch_shape import BatchShape
from knltrain.input.batches_ahead import BatchesAhead
from knltrain.input.node_data import NodeData


def config(**changed: Any) -> RunConfig:
    return RunConfig.model_validate(
        {
            "workers": 2,
            "network": {"name": "lenet"},
            "data": {"name": "digits", "train_images": 32, "test_images": 8, "batches_ahead": 2},
            "train": {"steps": 3, "batch": 8, "iter_size": 2},
            "learning_rate": {"base": 0.1},
            **changed,
        }
    )


def enter(_number: int) -> AbstractContextManager[None]:
    return nullcontext()


def test_a_pool_makes_the_batches_of_the_ranks_of_its_process() -> None:
    """Here those of ranks 2 and 3 of four, on the second of two computers."""
    chosen = config(nodes=2)
    dataset = build_dataset(chosen)
    data = NodeData.copy_of(dataset)
    ring = BatchRing.create(2, 2, BatchShape.of(dataset.train, 2))
    identity = DataPoolIdentity(Path(), 2, 2, 4, 1, 0, os.dup(ring.fd), data.fd)
    pool = build_pool(chosen, identity, enter)
    thread = threading.Thread(target=pool.run)
    thread.start()
    try:
        for worker in range(2):
            own = ShardedBatches(dataset.train, 8, 2 + worker, 4, chosen.seed, 2)
            feed = BatchesAhead(ring, worker, 2, lambda: None, 20.0)
            feed.begin(0)
            expected = Batch.allocate(2, dataset.train.image_shape)
            for step in range(3):
                for number in range(2):
                    own.fill(step, expected, number)
                    taken = feed.take(step, number)
                    np.testing.assert_array_equal(taken.images_nhwc, expected.images_nhwc)
                    assert taken.key == expected.key
                    feed.give_back()
            assert not ring.is_ready(worker, 6)  # beyond the run's end
            ring.leave(worker)
    finally:
        ring.abort(1)
        thread.join()
        pool._ring.close()
        ring.close()
        data.close()


@pytest.mark.parametrize(("termination", "last"), [("each", 5), ("fastest", None)])
def test_a_pool_knows_the_last_batch_unless_workers_may_take_more_steps(
    termination: str, last: int | None
) -> None:
    chosen = config(exchange={"method": "seasgd", "termination": termination})
    dataset = build_dataset(chosen)
    ring = BatchRing.create(2, 2, BatchShape.of(dataset.train, 4))
    identity = DataPoolIdentity(Path(), 0, 2, 2, 1, 0, ring.fd)
    assert build_pool(chosen, identity, enter)._last == last
    ring.close()


def test_a_data_set_is_the_nodes_copy_or_read() -> None:
    chosen = config()
    data = NodeData.copy_of(build_dataset(chosen))
    copy, read = opened_dataset(chosen, data.fd), opened_dataset(chosen, None)
    assert copy.contents == read.contents
    assert not copy.train.labels.flags.writeable
    assert read.train.labels.flags.writeable
    data.close()


def test_a_worker_opens_rings_of_the_size_that_follows_from_its_run() -> None:
    chosen = config()
    dataset = build_dataset(chosen)
    made = BatchRing.create(2, 2, BatchShape.of(dataset.train, 4))
    opened = open_ring(chosen, os.dup(made.fd), 2, dataset, 4)
    assert opened.batch(1, 0).images_nhwc.shape == (4, *dataset.train.image_shape)
    for ring in (made, opened):
        ring.close()
