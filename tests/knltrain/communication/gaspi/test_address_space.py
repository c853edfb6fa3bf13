"""Segments are made by all ranks, queues do not wait for each other, and ends are orderly."""

import threading

import numpy as np
import pytest

from knltrain.communication.gaspi import AddressSpace, thread_ranks
from knltrain.errors import CollectiveError, ExchangeTimeout

from .conftest import together


def spaces(size, timeout_seconds=10.0, **options):
    return [
        AddressSpace(ranks, timeout_seconds=timeout_seconds)
        for ranks in thread_ranks(size, **options)
    ]


def test_several_segments_are_apart():
    def work(space):
        first, second = (space.create_segment(16, 2) for _ in range(2))
        other = 1 - space.rank
        first.write_notify(np.full(4, 1, np.int32), other, 0, 1, 11)
        second.write_notify(np.full(4, 2, np.int32), other, 0, 1, 22)
        for segment in (first, second):
            segment.notify_waitsome(timeout_seconds=10)
        found = [
            (segment.notify_reset(1), segment.memory.view(np.int32).tolist())
            for segment in (first, second)
        ]
        space.close()
        return found

    assert together(spaces(2), work) == [[(11, [1] * 4), (22, [2] * 4)]] * 2


def test_a_queue_does_not_wait_for_another():
    let_go = threading.Event()

    def hold_rank_1(_origin, target):
        if target == 1:
            let_go.wait(10)

    def work(space):
        segment = space.create_segment(8, 1)
        if space.rank == 0:
            held = segment.write(np.ones(1), 1, 0, queue=0)
            segment.write_notify(np.ones(1), 2, 0, 0, 1, queue=1)
            space.wait(1)
            assert not space.is_done(held, 0)
            with pytest.raises(ExchangeTimeout, match=r"queue 0 of rank 0: .* rank 1"):
                space.wait(0, timeout_seconds=0.02)
            let_go.set()
            space.wait(0)
            assert space.is_done(held, 0)
        space.close()

    together(spaces(3, disturb=hold_rank_1), work)


def test_nothing_is_posted_or_taken_after_the_end():
    (space,) = spaces(1)
    segment = space.create_segment(8, 1)
    space.close()
    with pytest.raises(CollectiveError, match="queue 0 of rank 0 is closed: expected no notif"):
        segment.notify(0, 0, 1)
    with pytest.raises(CollectiveError, match="there are 0"):
        segment.arrived()
    assert segment.memory.size == 0


def test_who_does_not_make_a_segment_is_named():
    first, second, third = spaces(3, timeout_seconds=0.1)
    with pytest.raises(ExchangeTimeout, match=r"rank 0: .* for rank 1, rank 2, for segment 0"):
        first.create_segment(8, 1)
    for space in (first, second, third):
        space.abandon()


def test_the_end_waits_for_all_and_names_who_is_missing():
    def work(space):
        space.create_segment(8, 1)
        if space.rank == 1:
            space.abandon()
            return "left"
        try:
            space.close()
        except ExchangeTimeout as error:
            return str(error)

    first, second = together(spaces(2, timeout_seconds=1.0), work)
    assert "waited 1 s in vain for rank 1, for the end" in first
    assert second == "left"


@pytest.mark.parametrize("options", [{"queues": 0}, {"depth": 0}])
def test_a_space_without_room_is_refused(options):
    with pytest.raises(CollectiveError, match="expected 1 or more"):
        AddressSpace(thread_ranks(1)[0], **options)


@pytest.mark.parametrize(("size_bytes", "notifications"), [(-1, 1), (8, 0)])
def test_a_segment_without_room_is_refused(size_bytes, notifications):
    (space,) = spaces(1)
    with pytest.raises(CollectiveError, match=f"size_bytes={size_bytes}, .*{notifications}"):
        space.create_segment(size_bytes, notifications)
    space.close()
