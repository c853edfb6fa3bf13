"""Batches that a worker fills itself."""

from __future__ import annotations

import numpy as np

from knltrain.data.dataset import Batch, Dataset
from knltrain.data.order import ShardedBatches
from knltrain.input.batch_feed import FilledHere


def test_a_batch_is_filled_when_it_is_taken(small_dataset: Dataset) -> None:
    batches = ShardedBatches(small_dataset.train, 8, 1, 2, seed=5, iter_size=2)
    feed = FilledHere(batches, small_dataset.train.image_shape)
    feed.begin(3)
    expected = Batch.allocate(4, (6, 5, 3))
    for step, number in ((3, 0), (3, 1), (4, 0)):
        batches.fill(step, expected, number)
        taken = feed.take(step, number)
        np.testing.assert_array_equal(taken.images_nhwc, expected.images_nhwc)
        np.testing.assert_array_equal(taken.labels, expected.labels)
        assert taken.key == expected.key
        feed.give_back()
    feed.close()
