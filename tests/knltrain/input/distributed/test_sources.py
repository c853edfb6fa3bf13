"""Data sets of which each node holds a part: the same pictures as those of the whole."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from knltrain.data.dataset import Batch, Dataset
from knltrain.data.preprocessing import Draws
from knltrain.errors import BrokenPicture
from knltrain.input.distributed.sources import distributed, records_of

from .conftest import Spread


def images_of(dataset: Dataset, rows: Any, epoch: int | None = 3) -> np.ndarray[Any, Any]:
    batch = Batch.allocate(len(rows), (6, 5, 3))
    draws = None if epoch is None else Draws(7, epoch)
    half = dataset.test if epoch is None else dataset.train
    half.write(np.array(rows, np.int64), batch, draws)
    np.testing.assert_array_equal(batch.labels, half.source.labels[rows])
    return batch.images_nhwc


@pytest.mark.parametrize("kind", ["raw", "encoded"])
@pytest.mark.parametrize("nodes", [2, 3])
def test_every_node_has_the_pictures_of_all(
    kind: str, nodes: int, spread: Spread, request: pytest.FixtureRequest
) -> None:
    whole: Dataset = request.getfixturevalue(kind)
    rows = np.random.default_rng(5).permutation(41)
    for found in spread(whole, nodes):
        np.testing.assert_array_equal(images_of(found, rows), images_of(whole, rows))
        one = [int(rows[0])]
        np.testing.assert_array_equal(images_of(found, one), images_of(whole, one))
        every = list(range(10))
        np.testing.assert_array_equal(
            images_of(found, every, None), images_of(whole, every, None)
        )
        assert found.contents == whole.contents
        assert found.train.source.contents() == whole.train.source.contents()


@pytest.mark.parametrize("kind", ["raw", "encoded"])
def test_a_node_holds_its_part_alone(
    kind: str, spread: Spread, request: pytest.FixtureRequest
) -> None:
    found = spread(request.getfixturevalue(kind))
    records = [records_of(each.train.source) for each in found]
    assert [(each.part.first, len(each.part)) for each in records if each] == [(0, 20), (20, 21)]
    assert sum(each.part.content.nbytes for each in records if each) >= 41 * 20
