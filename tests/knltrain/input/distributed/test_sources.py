"""Data sets of which each node holds a part: the same pictures as those of the whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from knltrain.data.dataset import Batch, Dataset
from knltrain.data.preprocessing import Draws
from knltrain.errors import BrokenPicture
from knltrain.input.distributed.sources import records_of

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
        np.testing.assert_array_equal(images_of(found, every, None), images_of(whole, every, None))
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


def test_a_broken_picture_of_a_peer_is_named_by_its_file(encoded: Dataset, spread: Spread) -> None:
    files: Any = encoded.train.source
    files.pictures._encoded[40] = b"no picture"
    found = spread(encoded)[0]
    with pytest.raises(BrokenPicture, match=r"/train/café40\.png"):
        images_of(found, [0, 40])


def test_broken_pictures_are_skipped_as_in_the_whole(encoded: Dataset, spread: Spread) -> None:
    files: Any = encoded.train.source
    files.pictures._encoded[40] = b"no picture"
    files.rules = type(files.rules)(skip=True)
    found = spread(encoded)[0]
    np.testing.assert_array_equal(images_of(found, [0, 40]), images_of(encoded, [0, 40]))


def test_crops_of_test_pictures_have_their_source(raw: Dataset, spread: Spread) -> None:
    found = spread(replace(raw, test_crops=(raw.test, raw.test)))[1]
    assert [each.source for each in found.test_crops] == [found.test.source] * 2
    assert found.test.source is not raw.test.source


def test_raw_pictures_of_a_part_are_views_of_it(raw: Dataset, spread: Spread) -> None:
    source: Any = spread(raw)[1].train.source
    assert source.held_bytes == 21 * 90
    assert np.shares_memory(source.picture(40), source.records.part.content)
    assert "picture 3, which node 0 holds" in source.picture_name(3)
    out = np.empty((2, 6, 5, 3), np.uint8)
    source.read(np.array([3, 40]), out)
    np.testing.assert_array_equal(out[0], raw.train.source.picture(3))
    assert records_of(raw.train.source) is None
