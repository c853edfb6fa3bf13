"""The threads that fill rings: in which order, and how they end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import numpy as np
import pytest

from knltrain.data.dataset import Batch, Dataset
from knltrain.data.order import EpochOrders, ShardedBatches
from knltrain.errors import BrokenPicture
from knltrain.input.batch_pool import BatchPool, Fill
from knltrain.input.batch_ring import BatchRing
from knltrain.input.batches_ahead import BatchesAhead

from .conftest import MakeRing

Entered = Callable[[int], AbstractContextManager[None]]


def enter(_number: int) -> AbstractContextManager[None]:
    return nullcontext()


def numbered_batches(_worker: int) -> Fill:
    def fill(number: int, out: Batch) -> None:
        out.images_nhwc.fill(number)

    return fill


def until(look: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not look():
        assert time.monotonic() < deadline
        time.sleep(1e-3)


def leaves(ring: BatchRing) -> None:
    for worker in range(ring.workers):
        ring.leave(worker)


def test_as_many_batches_are_made_ahead_as_there_are_slots(make_ring: MakeRing) -> None:
    ring = make_ring(workers=2, slots=3)
    pool = BatchPool(ring, [numbered_batches(0), numbered_batches(1)], 2, enter)
    thread = threading.Thread(target=pool.run)
    thread.start()
    try:
        ring.want(1, 4)
        until(lambda: all(ring.is_ready(1, number) for number in (4, 5, 6)))
        time.sleep(0.01)
        assert [ring.batch(1, number).images_nhwc.max() for number in (4, 5, 6)] == [4, 5, 6]
        assert ring.batch(0, 0).images_nhwc.max() == 0  # this worker has not begun
        ring.want(1, 5)
        until(lambda: ring.is_ready(1, 7))
        assert ring.is_ready(1, 5)
    finally:
        leaves(ring)
        thread.join()


def test_the_batch_that_is_taken_soonest_comes_first(make_ring: MakeRing) -> None:
    ring, filled = make_ring(workers=2, slots=2), []

    def of(worker: int) -> Fill:
        def fill(number: int, _out: Batch) -> None:
            filled.append((worker, number))
            if len(filled) == 4:
                leaves(ring)

        return fill

    ring.want(0, 10)
    ring.want(1, 0)
    BatchPool(ring, [of(0), of(1)], 1, enter).run()
    assert filled == [(0, 10), (1, 0), (0, 11), (1, 1)]


def test_nothing_is_made_beyond_the_last_batch(make_ring: MakeRing) -> None:
    ring, filled = make_ring(slots=2), []

    def fill(number: int, _out: Batch) -> None:
        filled.append(number)
        if number == 4:
            threading.Timer(0.05, ring.leave, (0,)).start()

    ring.want(0, 4)
    BatchPool(ring, [fill], 1, enter, last=4).run()
    assert filled == [4]


def test_an_abort_ends_the_pool(make_ring: MakeRing) -> None:
    ring = make_ring()
    ring.abort(1)
    BatchPool(ring, [numbered_batches(0)], 2, enter).run()


def test_the_first_error_ends_the_pool_with_its_batch(make_ring: MakeRing) -> None:
    def fill(number: int, _out: Batch) -> None:
        if number == 3:
            raise BrokenPicture("c.jpg: it is cut short")

    ring = make_ring(slots=4)
    ring.want(0, 2)
    pool = BatchPool(ring, [fill], 2, enter)
    with pytest.raises(BrokenPicture, match=r"c\.jpg"):
        pool.run()
    assert pool.failed_at == (0, 3)
    assert not ring.is_ready(0, 3)


def test_an_error_is_told_with_its_own_batch(make_ring: MakeRing) -> None:
    """The thread that fails first leaves its core last."""
    both, first, second = threading.Event(), threading.Event(), threading.Event()

    def fill(number: int, _out: Batch) -> None:
        if number == 0:
            both.wait(20)
            first.set()
            raise BrokenPicture("batch 0")
        both.set()
        first.wait(20)
        time.sleep(0.05)
        second.set()
        raise BrokenPicture("batch 1")

    @contextmanager
    def entered(_number: int) -> Iterator[None]:
        try:
            yield
        except BrokenPicture as error:
            if "0" in str(error) and second.wait(20):
                time.sleep(0.1)
            raise

    ring = make_ring(slots=2)
    ring.want(0, 0)
    pool = BatchPool(ring, [fill], 2, entered)
    told = ""
    try:
        pool.run()
    except BrokenPicture as error:
        told = str(error)
    assert (pool.failed_at, told) in (((0, 0), "batch 0"), ((0, 1), "batch 1"))


def test_a_thread_that_hangs_does_not_keep_the_pool_from_its_end(make_ring: MakeRing) -> None:
    hanging = threading.Event()

    def fill(_number: int, _out: Batch) -> None:
        ring.leave(0)
        hanging.wait()

    ring = make_ring()
    ring.want(0, 0)
    try:
        BatchPool(ring, [fill], 1, enter, patience_seconds=0.1).run()
    finally:
        hanging.set()


def test_an_error_before_the_first_batch_is_told(make_ring: MakeRing) -> None:
    def refuse(_number: int) -> AbstractContextManager[None]:
        raise OSError("no such core")

    pool = BatchPool(make_ring(), [numbered_batches(0)], 1, refuse)
    with pytest.raises(OSError, match="no such core"):
        pool.run()
    assert pool.failed_at is None


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("iter_size", [1, 2])
def test_workers_get_the_batches_that_they_would_fill_themselves(
    make_ring: MakeRing, small_dataset: Dataset, threads: int, iter_size: int
) -> None:
    """Over the end of an epoch, from a step in its middle on."""
    ring = make_ring(workers=2, slots=3)
    orders = EpochOrders(small_dataset.train, 5, 2)
    batches = [
        ShardedBatches(small_dataset.train, 8, rank, 2, 5, iter_size, orders) for rank in range(2)
    ]

    def of(worker: int) -> Fill:
        def fill(number: int, out: Batch) -> None:
            step, within = divmod(number, iter_size)
            batches[worker].fill(step, out, within)

        return fill

    pool = BatchPool(ring, [of(0), of(1)], threads, enter)
    thread = threading.Thread(target=pool.run)
    thread.start()
    try:
        for rank in range(2):
            feed = BatchesAhead(ring, rank, iter_size, lambda: None, 20.0)
            own = ShardedBatches(small_dataset.train, 8, rank, 2, 5, iter_size)
            expected = Batch.allocate(4, (6, 5, 3))
            feed.begin(2)
            for step in range(2, 12):
                for number in range(iter_size):
                    own.fill(step, expected, number)
                    taken = feed.take(step, number)
                    np.testing.assert_array_equal(taken.images_nhwc, expected.images_nhwc)
                    np.testing.assert_array_equal(taken.labels, expected.labels)
                    assert taken.key == expected.key
                    feed.give_back()
    finally:
        leaves(ring)
        thread.join()
