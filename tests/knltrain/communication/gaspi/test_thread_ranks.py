"""Threads as ranks do no more than they must, so that who trusts in more is found out."""

import numpy as np

from knltrain.communication.gaspi import AddressSpace, Extent, thread_ranks
from knltrain.communication.gaspi import queue as queues
from knltrain.communication.gaspi.queue import Post

from .conftest import together


def pair(seed=0, disturb=lambda _origin, _target: None):
    ranks = thread_ranks(2, seed, disturb)
    return together(ranks, lambda each: each.allocate([Extent(8, 1)] * 2))


def test_some_data_arrive_at_once_and_some_only_when_completed():
    found = set()
    for seed in range(20):
        near, far = pair(seed)
        near.put(np.ones(8, np.uint8), 1, 0)
        found.add(int(far.memory[0]))
        near.complete(1)
        assert far.memory.all()
    assert found == {0, 1}


def test_data_wait_for_the_thread_that_has_put_them():
    for seed in range(20):
        near, far = pair(seed)
        near.put(np.ones(8, np.uint8), 1, 0)
        there = far.memory.any()
        together([near], lambda memory: memory.complete(1))
        assert far.memory.any() == there


def test_a_disturbance_hears_from_where_to_where():
    heard = []
    near, _ = pair(0, lambda origin, target: heard.append((origin, target)))
    near.put(np.ones(1, np.uint8), 1, 0)
    near.complete(1)
    assert heard == [(0, 1)]


def test_a_queue_that_forgets_to_complete_is_found_out(monkeypatch):
    """What all tests with threads rest on: notifications overtake data that are not complete."""

    def forgetful(posts):
        for post in posts:
            post.memory.put(post.data, post.rank, post.offset_bytes)
            post.memory.store(post.rank, post.notification, post.value)

    def work(space):
        segment = space.create_segment(8, 1)
        if space.rank == 0:
            segment.write_notify(np.ones(8, np.uint8), 1, 0, 0, 1)
            whole = True
        else:
            segment.notify_waitsome(timeout_seconds=10)
            whole = bool(segment.memory.all())
        space.close()
        return whole

    def whole(seed):
        return all(together([AddressSpace(ranks) for ranks in thread_ranks(2, seed)], work))

    assert all(whole(seed) for seed in range(8))
    monkeypatch.setattr(queues, "carry_out", forgetful)
    assert not all(whole(seed) for seed in range(8))


def test_posts_name_what_they_are():
    assert str(Post(None, 2, np.zeros(3, np.uint8))) == "write of 3 bytes to rank 2"
    assert str(Post(None, 2, notification=1, value=4)) == "notification 1 = 4 to rank 2"
