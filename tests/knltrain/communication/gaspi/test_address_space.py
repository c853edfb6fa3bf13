"""Segments are made by all ranks, queues do not wait for each other, and ends are orderly."""

import threading

import numpy as np
import pytest

from knltrain.communication.gaspi import AddressSpace, Extent, thread_ranks
from knltrain.communication.gaspi.address_space import _check_room
from knltrain.communication.gaspi.ranks import Room
from knltrain.errors import CollectiveError, ExchangeTimeout, SegmentError

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
    with pytest.raises(CollectiveError, match="the address space of rank 0 is closed"):
        segment.notify(0, 0, 1)
    with pytest.raises(CollectiveError, match="the address space of rank 0 is closed"):
        segment.arrived()
    assert segment.memory.size == 0


def test_who_does_not_make_a_segment_is_named():
    first, second, third = spaces(3, timeout_seconds=0.1)
    with pytest.raises(
        ExchangeTimeout, match=r"rank 0: .* for rank 1, rank 2 in create_segment of segment 0"
    ):
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
    assert "waited 1 s in vain for rank 1 in close" in first
    assert second == "left"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"queues": 0}, "queues=0: expected 1 to"),
        ({"depth": 0}, "depth=0: expected 1 to"),
        ({"queues": 1.5}, "queues=1.5: expected .* a whole number"),
        ({"timeout_seconds": float("nan")}, "timeout_seconds=nan: expected a number of seconds"),
        ({"timeout_seconds": None}, "timeout_seconds=None: expected a number of seconds"),
    ],
)
def test_a_space_without_room_or_limit_is_refused(options, said):
    with pytest.raises(CollectiveError, match=said):
        AddressSpace(thread_ranks(1)[0], **options)


@pytest.mark.parametrize(
    ("size_bytes", "notifications", "said"),
    [
        (-1, 1, "size_bytes=-1: expected 0 to"),
        (8.0, 1, "size_bytes=8.0: expected 0 to .*, a whole number"),
        (2**63, 1, f"size_bytes={2**63}: expected 0 to"),
        (8, 0, "notifications=0: expected 1 to"),
    ],
)
def test_a_segment_without_room_is_refused(size_bytes, notifications, said):
    (space,) = spaces(1)
    with pytest.raises(CollectiveError, match=said):
        space.create_segment(size_bytes, notifications)
    space.close()


def test_ranks_of_a_node_share_its_memory_and_others_have_their_own():
    extents = [Extent(100, 0), Extent(100, 1), Extent(50, 0)]
    rooms = [Room("one", 300, 216), Room("one", 300, 250), Room("two", 50, 0)]
    _check_room(0, extents, rooms)
    rooms[1] = Room("one", 300, 215)
    said = r"segment 0 takes 216 B at one, by ranks 0, 1, and 215 B are free: .* enlarge /dev/shm"
    with pytest.raises(SegmentError, match=said):
        _check_room(0, extents, rooms)
    rooms[:] = [Room("one", 300, 300), Room("one", 300, 300), Room("two", 49, 300)]
    with pytest.raises(SegmentError, match=r"50 B at two, by rank 2, .* free memory$"):
        _check_room(0, extents, rooms)


def test_who_has_no_memory_after_all_keeps_nobody_waiting_without_end(monkeypatch):
    first, second = thread_ranks(2)

    def fail(_extents):
        raise SegmentError("no page on this node")

    monkeypatch.setattr(first, "allocate", fail)

    def work(space):
        said = "no page" if space.rank == 0 else "rank 0 in create_segment of segment 0, last step"
        with pytest.raises((SegmentError, ExchangeTimeout), match=said):
            space.create_segment(8, 1)
        space.abandon()

    together([AddressSpace(ranks, timeout_seconds=1) for ranks in (first, second)], work)


@pytest.mark.parametrize("timeout_seconds", [float("nan"), -1, "3"])
def test_no_call_takes_a_limit_that_is_none(timeout_seconds):
    (space,) = spaces(1)
    segment, group = space.create_segment(8, 1), space.group([0])
    for call in (
        space.wait,
        space.barrier,
        group.barrier,
        segment.notify_waitsome,
        lambda timeout_seconds: space.passive_receive(np.ones(1), timeout_seconds),
    ):
        with pytest.raises(CollectiveError, match=r"timeout_seconds=.*: expected a number of sec"):
            call(timeout_seconds=timeout_seconds)
    space.close()


def test_an_endless_limit_is_one():
    (space,) = spaces(1, timeout_seconds=float("inf"))
    space.create_segment(8, 1).notify(0, 0, 1)
    space.wait()
    space.close()


@pytest.mark.parametrize("queue", [2, -1, 0.0, None])
def test_a_queue_that_is_not_there_is_named(queue):
    (space,) = spaces(1)
    for call in (space.wait, lambda queue: space.is_done(0, queue)):
        with pytest.raises(CollectiveError, match=f"AddressSpace: queue={queue}: expected 0 to 1"):
            call(queue=queue)
    space.close()


def test_a_post_that_was_not_made_is_never_done():
    (space,) = spaces(1)
    post = space.create_segment(8, 1).notify(0, 0, 1)
    with pytest.raises(CollectiveError, match="post=2: expected 0 to 1"):
        space.is_done(post + 1)
    space.close()


def test_a_message_is_not_received_into_what_must_not_change():
    (space,) = spaces(1)
    out = np.ones(1)
    out.flags.writeable = False
    with pytest.raises(CollectiveError, match="is read-only: expected"):
        space.passive_receive(out)
    space.close()
