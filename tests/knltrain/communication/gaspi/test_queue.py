"""A queue does what is posted, in the order that it promises, and says who keeps it waiting."""

import threading

import numpy as np
import pytest

from knltrain.communication.gaspi.queue import Post, Queue, carry_out
from knltrain.errors import CollectiveError, ExchangeTimeout

BYTES = np.arange(5, dtype=np.uint8)


class Journal:
    """A remote memory that writes down what it is told."""

    def __init__(self, name="", book=None, let_go=None):
        self.book = [] if book is None else book
        self._name, self._let_go = name, let_go

    def put(self, data, rank, offset_bytes):
        self._write(f"put {data.size} to {rank} at {offset_bytes}")

    def store(self, rank, word, value):
        self._write(f"store {word} = {value} to {rank}")

    def complete(self, rank):
        if self._let_go is not None and not self._let_go.wait(10):
            raise RuntimeError("nobody let go")
        self._write(f"complete {rank}")

    def _write(self, what):
        self.book.append(f"{self._name}{what}")


def test_data_are_complete_before_a_notification_to_the_same_rank_is_stored():
    memory = Journal()
    posts = [Post(memory, 1, BYTES, 8), Post(memory, 2, BYTES, 0), Post(memory, 1, BYTES, 0, 4, 6)]
    carry_out(posts)
    assert memory.book == [
        "put 5 to 1 at 8",
        "put 5 to 2 at 0",
        "put 5 to 1 at 0",
        "complete 1",
        "store 4 = 6 to 1",
        "complete 2",
    ]


def test_a_notification_waits_for_data_in_other_segments_too():
    book = []
    first, second = Journal("a: ", book), Journal("b: ", book)
    carry_out([Post(first, 1, BYTES), Post(second, 1, notification=0, value=1)])
    assert book == ["a: put 5 to 1 at 0", "a: complete 1", "b: store 0 = 1 to 1"]


def test_nothing_is_completed_where_nothing_was_put():
    memory = Journal()
    carry_out([Post(memory, 1, BYTES[:0], 0, 3, 9), Post(memory, 1, BYTES[:0])])
    assert memory.book == ["store 3 = 9 to 1"]


def test_posts_are_done_one_after_another_and_numbered():
    queue, memory = Queue("queue", 8), Journal()
    numbers = [queue.post(Post(memory, 0, BYTES, 0, 1, value), 5) for value in (1, 2, 3)]
    queue.wait(5)
    assert numbers == [1, 2, 3]
    assert queue.is_done(3)
    with pytest.raises(CollectiveError, match="queue: post=4: expected 0 to 3"):
        queue.is_done(4)
    assert [line for line in memory.book if line.startswith("store")] == [
        f"store 1 = {value} to 0" for value in (1, 2, 3)
    ]
    queue.close(5)


def test_what_does_not_end_is_named_after_the_time_limit():
    let_go = threading.Event()
    queue, memory = Queue("queue 1 of rank 0", 8), Journal(let_go=let_go)
    queue.post(Post(memory, 3, BYTES, 0, 2, 7), 5)
    with pytest.raises(ExchangeTimeout) as timeout:
        queue.wait(0.05)
    assert str(timeout.value).startswith(
        "queue 1 of rank 0: waited 0.05 s in vain for 1 posts, the first of them a write of 5 "
        "bytes with notification 2 = 7 to rank 3"
    )
    assert not queue.is_done(1)
    let_go.set()
    queue.wait(5)
    queue.close(5)


def test_a_full_queue_takes_no_more_until_it_has_room():
    let_go = threading.Event()
    queue, memory = Queue("queue", 2), Journal(let_go=let_go)
    for _ in range(2):
        queue.post(Post(memory, 1, BYTES), 5)
    with pytest.raises(ExchangeTimeout, match="2 posts"):
        queue.post(Post(memory, 1, BYTES), 0.05)
    let_go.set()
    assert queue.post(Post(memory, 1, BYTES), 5) == 3
    queue.wait(5)
    queue.close(5)


def test_a_failure_of_the_library_reaches_who_waits_and_who_posts():
    queue = Queue("queue 0 of rank 2", 8)

    class Broken(Journal):
        def put(self, data, rank, offset_bytes):
            raise RuntimeError("no route")

    queue.post(Post(Broken(), 1, BYTES), 5)
    for call in (lambda: queue.wait(5), lambda: queue.post(Post(Broken(), 1, BYTES), 5)):
        with pytest.raises(CollectiveError, match="queue 0 of rank 2: no route"):
            call()
    queue.close(5)


def test_a_queue_that_was_never_used_has_no_thread():
    before = threading.active_count()
    queue = Queue("queue", 1)
    queue.wait(0)
    assert threading.active_count() == before
    queue.close(0)
