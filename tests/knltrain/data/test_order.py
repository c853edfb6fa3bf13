"""The order of images depends on seed, epoch and position alone, not on who reads them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from knltrain.data.dataset import Batch, LabelledImages
from knltrain.data.order import EpochOrders, ShardedBatches, epoch_order
from knltrain.errors import DataError
from tests.knltrain.data.given import given_images


def _images(count: int) -> LabelledImages:
    """Images whose only pixel and label are their index."""
    index = np.arange(count)
    return given_images(index.astype(np.float32).reshape(-1, 1, 1, 1), index)


def _seen(images: LabelledImages, batch: int, workers: int, step: int, seed: int = 5) -> list[int]:
    """The global batch of a step, put together from the workers' shares."""
    seen: list[int] = []
    for rank in range(workers):
        batches = ShardedBatches(images, batch, rank, workers, seed)
        out = Batch.allocate(batches.images_per_worker, images.image_shape)
        batches.fill(step, out)
        assert out.images_nhwc.reshape(-1).tolist() == out.labels.tolist()
        seen += out.labels.tolist()
    return seen


def test_epoch_order_is_a_permutation() -> None:
    assert sorted(epoch_order(1000, seed=1, epoch=0)) == list(range(1000))


def test_epoch_order_is_the_same_on_every_machine_and_for_ever() -> None:
    order = epoch_order(10, seed=1, epoch=0)
    assert order.dtype == np.int64
    assert order.tolist() == [2, 0, 1, 4, 5, 6, 7, 8, 3, 9]


def test_epoch_order_changes_with_seed_and_epoch() -> None:
    orders = {tuple(epoch_order(50, seed, epoch)) for seed in range(3) for epoch in range(3)}
    assert len(orders) == 9


def test_first_image_of_an_epoch_is_uniform() -> None:
    first = np.array([epoch_order(10, seed=2, epoch=epoch)[0] for epoch in range(2000)])
    counts = np.bincount(first, minlength=10)
    # 200 expected; five standard deviations of a binomial are 67.
    assert counts.min() > 133
    assert counts.max() < 267


def test_global_batch_is_the_same_for_any_number_of_workers() -> None:
    images = _images(50)
    for step in (0, 3, 4, 11):
        assert (
            _seen(images, 12, 1, step) == _seen(images, 12, 3, step) == _seen(images, 12, 4, step)
        )


def test_an_epoch_shows_every_image_at_most_once_and_drops_the_rest() -> None:
    images = _images(50)
    batches = ShardedBatches(images, 12, 0, 2, seed=5)
    assert batches.steps_per_epoch == 4
    assert batches.images_per_worker == 6
    first = [index for step in range(4) for index in _seen(images, 12, 2, step)]
    second = [index for step in range(4, 8) for index in _seen(images, 12, 2, step)]
    assert len(set(first)) == len(set(second)) == 48
    assert first == epoch_order(50, 5, 0)[:48].tolist()
    assert second == epoch_order(50, 5, 1)[:48].tolist()


def test_steps_may_be_read_in_any_order() -> None:
    batches = ShardedBatches(_images(20), 4, 1, 2, seed=5)
    out = Batch.allocate(2, (1, 1, 1))
    seen = {}
    for step in (7, 0, 12, 7, 0, 12):
        batches.fill(step, out)
        assert seen.setdefault(step, out.labels.tolist()) == out.labels.tolist()
    assert len({tuple(labels) for labels in seen.values()}) == 3


def test_batch_is_written_in_place() -> None:
    images = _images(20)
    out = Batch.allocate(2, (1, 1, 1))
    pixels, labels = out.images_nhwc.ctypes.data, out.labels.ctypes.data
    ShardedBatches(images, 4, 0, 2, seed=5).fill(1, out)
    assert (out.images_nhwc.ctypes.data, out.labels.ctypes.data) == (pixels, labels)
    assert out.labels.tolist() == epoch_order(20, 5, 0)[4:6].tolist()


def _key(step: int, rank: int = 0, seed: int = 5, images: int = 20, workers: int = 2) -> int:
    out = Batch.allocate(2, (1, 1, 1))
    place = out.key.ctypes.data
    ShardedBatches(_images(images), 2 * workers, rank, workers, seed).fill(step, out)
    assert out.key.ctypes.data == place
    return int(out.key[0])


def test_key_is_the_same_on_every_machine_and_for_ever() -> None:
    assert _key(step=3, rank=1) == 471450922708169230


def test_key_follows_from_seed_step_and_rank_alone() -> None:
    assert _key(3, rank=1) == _key(3, rank=1, images=12, workers=3)
    places = [(seed, step, rank) for seed in (0, 5) for step in (0, 1, 999) for rank in (0, 1)]
    keys = {_key(step, rank, seed) for seed, step, rank in places}
    assert len(keys) == len(places)
    assert max(keys) > 2**60  # all 64 bits are used


def test_key_of_a_step_does_not_depend_on_the_steps_before() -> None:
    batches, out = ShardedBatches(_images(20), 4, 1, 2, seed=5), Batch.allocate(2, (1, 1, 1))
    for step in (7, 0, 12, 7):
        batches.fill(step, out)
        assert int(out.key[0]) == _key(step, rank=1)


def test_a_batch_of_all_images_makes_one_step() -> None:
    assert ShardedBatches(_images(8), 8, 0, 2, seed=1).steps_per_epoch == 1


@pytest.mark.parametrize(("batch", "workers"), [(9, 2), (2, 4)])
def test_batch_that_workers_cannot_share_is_refused(batch: int, workers: int) -> None:
    with pytest.raises(DataError, match=f"{batch} images does not divide .* {workers} workers"):
        ShardedBatches(_images(20), batch, 0, workers, seed=1)


def test_batch_larger_than_the_training_images_is_refused() -> None:
    with pytest.raises(DataError, match="a batch of 10 images is larger than the 9 training"):
        ShardedBatches(_images(9), 10, 0, 2, seed=1)


def test_rank_outside_the_workers_is_refused() -> None:
    with pytest.raises(ValueError, match="rank 2 of 2 workers"):
        ShardedBatches(_images(9), 4, 2, 2, seed=1)


def test_batches_of_a_step_follow_each_other_in_the_order_of_the_epoch() -> None:
    images, seen = _images(50), list[int]()
    batches = [ShardedBatches(images, 4, rank, 2, seed=5, iter_size=3) for rank in range(2)]
    assert (batches[0].steps_per_epoch, batches[0].images_in([1, 0])) == (4, 6)
    out, keys = Batch.allocate(2, (1, 1, 1)), set()
    for step in range(5):
        for number in range(3):
            for each in batches:
                each.fill(step, out, number)
                seen += out.labels.tolist()
                keys.add(int(out.key[0]))
    assert seen == [*epoch_order(50, 5, 0)[:48].tolist(), *epoch_order(50, 5, 1)[:12].tolist()]
    assert len(keys) == 5 * 3 * 2


def test_a_step_of_more_images_than_there_are_is_refused() -> None:
    with pytest.raises(DataError, match=r"a step of 5 times a batch of 12 .* train.iter_size"):
        ShardedBatches(_images(50), 12, 0, 1, seed=5, iter_size=5)


def test_targets_stay_with_their_images() -> None:
    index = np.arange(8, dtype=np.float32)
    images = given_images(index.reshape(-1, 1, 1, 1), np.stack([index, -index], axis=1))
    batches, out = ShardedBatches(images, 4, 1, 2, seed=5), Batch.allocate(2, (1, 1, 1), (2,))
    batches.fill(1, out)
    seen = out.images_nhwc.reshape(-1)
    assert out.labels.tolist() == np.stack([seen, -seen], axis=1).tolist()


def test_orders_of_several_threads_are_made_once_and_the_oldest_is_dropped(monkeypatch):
    made = []

    def counted(images, seed, epoch):
        made.append(epoch)
        return epoch_order(images, seed, epoch)

    monkeypatch.setattr("knltrain.data.order.epoch_order", counted)
    orders = EpochOrders(_images(20), 3, kept=2)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(orders.of, [0] * 8))
    assert all(each is found[0] for each in found)
    np.testing.assert_array_equal(found[0], epoch_order(20, 3, 0))
    for epoch in (1, 0, 2, 1, 0):
        orders.of(epoch)
    assert made == [0, 1, 2, 0]


@pytest.mark.parametrize("shares", [(7, 3), (10, 0), (0, 4, 6)])
def test_unequal_shares_make_up_the_same_batch(shares: tuple[int, ...]) -> None:
    images, seen = _images(50), list[int]()
    for rank in range(len(shares)):
        batches = ShardedBatches(images, 10, rank, len(shares), 5, shares=shares)
        assert batches.images_per_worker == shares[rank]
        out = Batch.allocate(batches.images_per_worker, images.image_shape)
        batches.fill(3, out)
        seen += out.labels.tolist()
    assert seen == _seen(images, 10, 1, 3)


def test_images_are_counted_by_who_takes_them() -> None:
    batches = ShardedBatches(_images(50), 10, 1, 2, 5, iter_size=2, shares=(7, 3))
    assert batches.images_in([4, 1]) == 2 * (4 * 7 + 3)
    batches.share_out((4, 6))
    assert batches.images_in([4, 1]) == 2 * (4 * 4 + 6)


@pytest.mark.parametrize("shares", [(7, 4), (5, 5, 0), (11, -1)])
def test_shares_of_another_batch_are_refused(shares: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="of 10 images, 2 workers"):
        ShardedBatches(_images(50), 10, 0, 2, 5, shares=shares)
