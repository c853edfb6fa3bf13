"""The one thread in which a process calls oneCCL, and what becomes of calls that never return.

oneCCL works in the calling thread, in one communicator at a time, and waits for ever for a peer
that is gone. So all groups of a process share a lane: a thread that makes the calls in the order in
which the program asked for them, and one that ends the waiting for a call that takes too long.
"""

from __future__ import annotations

import functools
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import final

from knltrain.errors import CollectiveError, ExchangeTimeout, KnltrainError
from knltrain.exchange.oneccl.library import leave_as_it_is_at_exit
from knltrain.torch_distributed.member import DESTROYED
from knltrain.torch_distributed.work import Operation


@dataclass(slots=True)
class _Entry:
    operation: Operation
    share: Share
    limit: float
    deadline: float = 0.0


@final
class Share:
    """A group's share in the lane; ``group`` is what it is called in messages."""

    def __init__(self, lane: Lane, group: str) -> None:
        self.group = group
        self.error: KnltrainError | None = None
        self._lane = lane
        lane.open()

    def put(self, operation: Operation, is_awaited: bool, limit: float) -> Operation:  # noqa: ARG002
        """Have an operation done behind those before; ``limit`` counts from when it begins.

        Raises what the group has failed with.
        """
        self._lane.put(_Entry(operation, self, limit))
        return operation

    def fail(self, error: KnltrainError) -> None:
        """Have the group's operations under way fail, and all later ones."""
        self._lane.fail(self, error)

    def close(self, limit_seconds: float) -> bool:
        """Take no more; tell whether all that was taken has been done in time."""
        return self._lane.close(self, limit_seconds)


@final
class Lane:
    """The calls of all groups of a process, one after the other."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: deque[_Entry] = deque()
        self._running: _Entry | None = None
        self._stuck: KnltrainError | None = None
        self._shares = 0
        self._threads: list[threading.Thread] = []

    def open(self) -> None:
        """Count a share more."""
        with self._changed:
            self._shares += 1

    def put(self, entry: _Entry) -> None:
        """Take an operation."""
        with self._changed:
            error = entry.share.error or self._stuck
            if error is not None:
                raise error
            if not self._threads:
                self._threads = [
                    threading.Thread(target=each, name="oneCCL", daemon=True)
                    for each in (self._serve, self._keep_time)
                ]
                for thread in self._threads:
                    thread.start()
            self._queue.append(entry)
            self._changed.notify_all()

    def fail(self, share: Share, error: KnltrainError) -> None:
        """End the waiting for a share's operations, and for those behind one that is stuck."""
        with self._changed:
            share.error = share.error or error
            if self._running is not None and self._running.share is share:
                self._stuck = self._stuck or error
                leave_as_it_is_at_exit()
                failed = [self._running, *self._queue]
                self._queue.clear()
            else:
                failed = [entry for entry in self._queue if entry.share is share]
                self._queue = deque(entry for entry in self._queue if entry.share is not share)
        for entry in failed:
            entry.operation.finish(error)

    def close(self, share: Share, limit_seconds: float) -> bool:
        """Take no more of a share; with the last one the threads end."""

        def is_done() -> bool:
            entries = [*self._queue, *([self._running] if self._running else [])]
            return self._stuck is not None or all(entry.share is not share for entry in entries)

        with self._changed:
            share.error = share.error or CollectiveError(DESTROYED)
            in_time = threading.current_thread() in self._threads or self._changed.wait_for(
                is_done, limit_seconds
            )
            self._shares -= 1
            ended = [] if self._shares or self._stuck else self._threads
            if ended:
                self._threads = []
            self._changed.notify_all()
        for thread in ended:
            if thread is not threading.current_thread():
                thread.join(limit_seconds)
        return in_time and self._stuck is None

    def _serve(self) -> None:
        me = threading.current_thread()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or me not in self._threads)
                if not self._queue:
                    return
                self._running = self._queue.popleft()
                self._running.deadline = time.monotonic() + self._running.limit
                operation = self._running.operation
                self._changed.notify_all()
            operation.run()
            with self._changed:
                self._running = None
                self._changed.notify_all()
            del operation

    def _keep_time(self) -> None:
        me = threading.current_thread()
        while True:
            with self._changed:
                late = self._running
                left = late.deadline - time.monotonic() if late else None
                if late is None or left is None or left > 0:
                    if me not in self._threads:
                        return
                    self._changed.wait(None if left is None else min(left, threading.TIMEOUT_MAX))
                    continue
            late.share.fail(
                ExchangeTimeout(
                    f"waited {late.limit:g} s in vain for the other ranks of {late.share.group}: "
                    "expected all of them to call the same operations in the same order; if they "
                    "can be so much slower, give init_process_group or new_group a longer timeout"
                )
            )


@functools.cache
def lane() -> Lane:
    """Return the lane of this process."""
    return Lane()
