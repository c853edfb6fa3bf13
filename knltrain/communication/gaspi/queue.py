"""A queue of posted writes, reads and notifications, and the thread that carries them out."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from knltrain.communication.gaspi.arguments import whole
from knltrain.communication.gaspi.ranks import Bytes, RemoteMemory
from knltrain.communication.shared_memory.polling import ProcessClock
from knltrain.errors import CollectiveError, ExchangeTimeout

_SLICE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Post:
    """A write (``data``), a read (``out``), or a notification (``value`` is not 0).

    Of a write with a notification the data go first.
    """

    memory: RemoteMemory
    rank: int
    data: Bytes | None = None
    offset_bytes: int = 0
    notification: int = 0
    value: int = 0
    out: Bytes | None = None

    def __str__(self) -> str:
        if self.out is not None:
            return f"read of {self.out.size} bytes from rank {self.rank}"
        what = [f"write of {self.data.size} bytes"] if self.data is not None else []
        what += [f"notification {self.notification} = {self.value}"] if self.value else []
        return f"{' with '.join(what)} to rank {self.rank}"


@final
class Queue:
    """A queue of at most ``depth`` posts at a time; ``name`` is its name in errors.

    A notification to a rank is visible only after all data posted to that rank before it. No other
    order is guaranteed. A thread carries the posts out: MPI can complete a put at its target only
    by a call that blocks.
    """

    def __init__(self, name: str, depth: int) -> None:
        self._name, self._depth = name, depth
        self._changed = threading.Condition()
        self._pending: deque[Post] = deque()
        self._posted = self._done = 0
        self._thread: threading.Thread | None = None
        self._closing = False
        self._failure: Exception | None = None

    def post(self, post: Post, timeout_seconds: float) -> int:
        """Add ``post``, and return its number, counted from 1.

        Raises ExchangeTimeout if the queue stays full for ``timeout_seconds``, CollectiveError if
        it is closed, and what `wait` does.
        """
        with self._changed:
            if self._closing:
                raise CollectiveError(f"{self._name} is closed: expected no {post} any more")
            self._await(lambda: len(self._pending) < self._depth, timeout_seconds)
            self._pending.append(post)
            self._posted += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify_all()
            return self._posted

    def is_done(self, number: int) -> bool:
        """Tell whether the posts up to ``number`` are done, so that their data may be changed.

        Raises CollectiveError for a number that no post has had, and what `wait` does.
        """
        self._check()
        whole(self._name, "post", number, (0, self._posted), "; posts return their numbers")
        return self._done >= number

    def wait(self, timeout_seconds: float) -> None:
        """Return when all posts so far are done.

        Raises ExchangeTimeout if they are not in time, CollectiveError if the MPI library fails.
        """
        with self._changed:
            posted = self._posted
            self._await(lambda: self._done >= posted, timeout_seconds)

    def close(self, timeout_seconds: float) -> None:
        """End the thread when all posts are done, or after ``timeout_seconds``."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(min(timeout_seconds, threading.TIMEOUT_MAX))

    def _await(self, condition: Callable[[], bool], timeout_seconds: float) -> None:
        own_time, left = ProcessClock(), timeout_seconds
        while left > 0 and self._failure is None and not condition():
            self._changed.wait(min(left, _SLICE_SECONDS))
            left -= own_time.passed()  # without the time in which this process was stopped
        self._check()
        if not condition():
            first = self._pending[0]
            raise ExchangeTimeout(
                f"{self._name}: waited {timeout_seconds:g} s in vain for {len(self._pending)} "
                f"posts, the first of them a {first}: is that rank alive, and does it let its MPI "
                "library progress?"
            )

    def _check(self) -> None:
        if self._failure is not None:
            raise CollectiveError(f"{self._name}: {self._failure}") from self._failure

    def _work(self) -> None:
        while batch := self._next_batch():
            try:
                carry_out(batch)
            except Exception as error:  # noqa: BLE001 (raised by the calls that post or wait)
                self._failure = error
            with self._changed:
                for _ in batch:
                    self._pending.popleft()
                self._done += len(batch)
                self._changed.notify_all()
            if self._failure is not None:
                return

    def _next_batch(self) -> list[Post]:
        with self._changed:
            self._changed.wait_for(lambda: self._pending or self._closing)
            return list(self._pending)


def chosen(queues: Sequence[Queue], number: int, where: str) -> Queue:
    """Return a queue by its number; CollectiveError if there is none."""
    hint = "; AddressSpace says how many there are"
    return queues[whole(where, "queue", number, (0, len(queues) - 1), hint)]


def carry_out(posts: Sequence[Post]) -> None:
    """Execute the posts one after another; return when all are complete at their targets."""
    unfinished: dict[tuple[int, int], Post] = {}
    for post in posts:
        if post.data is not None and post.data.size:
            post.memory.put(post.data, post.rank, post.offset_bytes)
            unfinished[post.rank, id(post.memory)] = post
        if post.out is not None and post.out.size:
            post.memory.get(post.out, post.rank, post.offset_bytes)
            unfinished[post.rank, id(post.memory)] = post
        if post.value:
            for place in [place for place in unfinished if place[0] == post.rank]:
                unfinished.pop(place).memory.complete(post.rank)
            post.memory.store(post.rank, post.notification, post.value)
    for post in unfinished.values():
        post.memory.complete(post.rank)
