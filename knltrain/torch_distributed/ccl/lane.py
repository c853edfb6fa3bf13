"""The lane: the one thread in which a process calls oneCCL, and a watchdog for its calls.

oneCCL works in the calling thread, in one communicator at a time, and waits for ever for a peer
that is gone. So all groups of a process share a lane. One thread makes the calls in the order of
the program's requests; a watchdog thread fails a call that takes too long.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import final

from knltrain.errors import CollectiveError, ExchangeTimeout, KnltrainError
from knltrain.torch_distributed.member import DESTROYED, LAST_WORK_SECONDS
from knltrain.torch_distributed.serving import Server, peer_wait
from knltrain.torch_distributed.work import Announcement, Operation


@dataclass(slots=True, eq=False)
class _Entry:
    operation: Operation | Announcement
    share: Share
    limit: float
    begun: float = 0.0

    def left(self) -> float:
        """Return the seconds until the timeout; few if a rank has left the group."""
        if self.operation.is_foreign:
            return self.begun + peer_wait(self.limit) - time.monotonic()
        limit = min(self.limit, LAST_WORK_SECONDS) if self.share.departure else self.limit
        return min(self.begun + limit - time.monotonic(), threading.TIMEOUT_MAX)

    def lateness(self) -> KnltrainError:
        """Return the error to raise at the timeout."""
        return self.share.departure or ExchangeTimeout(
            f"waited {self.limit:g} s in vain for the other ranks of {self.share.group}: expected "
            "all of them to call the same operations in the same order; if they can be so much "
            "slower, raise the timeout given to init_process_group or new_group"
        )


@final
class Share:
    """A group's share in the lane; ``group`` is its name in errors.

    `error` is the error that the group has failed with. `departure` says that a rank has left it;
    operations in which that rank has done its part may still end, within a few seconds.
    """

    def __init__(self, lane: Lane, group: str) -> None:
        self.group = group
        self.error: KnltrainError | None = None
        self.departure: KnltrainError | None = None
        self._lane = lane
        lane.open()

    def put(self, operation: Operation, is_awaited: bool, limit: float) -> Operation:  # noqa: ARG002
        """Queue an operation; ``limit`` counts from when it begins.

        Raises the error that the group has failed with.
        """
        operation.behind = partial(self._announce, limit)
        self._lane.put(_Entry(operation, self, limit))
        return operation

    def _announce(self, limit: float, announcement: Announcement) -> None:
        try:
            self._lane.put(_Entry(announcement, self, limit))
        except KnltrainError:
            announcement.finish()

    def is_at_home(self) -> bool:
        """Tell whether all ranks have the calling thread's operations in the same order."""
        return self._lane.is_at_home()

    def fail(self, error: KnltrainError) -> None:
        """Fail the group's pending operations, and all later ones."""
        self._lane.fail(self, error)

    def depart(self, error: KnltrainError) -> None:
        """Record that a rank has left the group."""
        self._lane.depart(self, error)

    def close(self, limit_seconds: float) -> None:
        """Accept no more operations; pending ones fail unless they end in time."""
        self._lane.close(self, limit_seconds)


@final
class Lane:
    """The calls of all groups of a process, one after the other.

    Callbacks of futures run in the same order. If one blocks, or delays the operations, another
    thread takes over, and the callback's thread is left alone.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._queue: deque[_Entry] = deque()
        self._running: _Entry | None = None
        self._stuck: KnltrainError | None = None
        self._shares = 0
        self._home: threading.Thread | None = None
        self._server: Server | None = None
        self._timekeeper: threading.Thread | None = None

    def open(self) -> None:
        """Add a share; CollectiveError in a forked process, which has no threads."""
        if self._pid != os.getpid():
            raise CollectiveError(
                f"process {self._pid} has used oneCCL, and this one was forked of it: expected a "
                'process of its own, as multiprocessing starts one by "spawn"'
            )
        with self._changed:
            if not self._shares:
                self._home = threading.current_thread()
            self._shares += 1

    def is_at_home(self) -> bool:
        """Tell whether this thread made the first of the groups, or does their operations.

        Operations of other threads have no known order among those of all groups. If the first
        thread has ended (it only made a group), the next one takes its place.
        """
        me = threading.current_thread()
        with self._changed:
            if self._home is None or not self._home.is_alive():
                self._home = me
            return me in (self._home, self._server)

    def put(self, entry: _Entry) -> None:
        """Queue an operation."""
        with self._changed:
            error = entry.share.error or self._stuck
            if error is not None:
                raise error
            if threading.current_thread() is not self._server:
                self._start()
                self._queue.append(entry)
                self._changed.notify_all()
                return
            outer, self._running = self._running, entry
            entry.begun = time.monotonic()
            self._changed.notify_all()
        entry.operation.run()
        with self._changed:
            self._running = outer
            if outer is not None:
                outer.begun = time.monotonic()
            self._changed.notify_all()

    def fail(self, share: Share, error: KnltrainError) -> None:
        """Fail a share's operations, and those behind a stuck one."""
        with self._changed:
            failed = self._failed(share, error)
        for entry in failed:
            entry.operation.finish(error)

    def depart(self, share: Share, error: KnltrainError) -> None:
        """Limit the operations of a share to some seconds from now on."""
        with self._changed:
            share.departure = share.departure or error
            if self._running is not None and self._running.share is share:
                self._running.begun = time.monotonic()
            self._changed.notify_all()

    def close(self, share: Share, limit_seconds: float) -> None:
        """Remove a share; with the last one the threads end."""
        error = CollectiveError(DESTROYED)
        with self._changed:
            share.error = share.error or error
            if threading.current_thread() is not self._server:
                self._changed.wait_for(lambda: not self._has_work_of(share), limit_seconds)
        self.fail(share, error)
        with self._changed:
            self._shares -= 1
            ended = [] if self._shares or self._stuck else [self._server, self._timekeeper]
            if ended:
                self._server = self._timekeeper = None
            self._changed.notify_all()
        for thread in ended:
            if thread is not None and thread is not threading.current_thread():
                thread.join(limit_seconds)

    def _start(self) -> None:
        if self._server is None:
            self._server = Server("oneCCL", self._serve, self._replace)
            self._server.start()
        if self._timekeeper is None:
            self._timekeeper = threading.Thread(target=self._keep_time, name="oneCCL", daemon=True)
            self._timekeeper.start()

    def _replace(self) -> None:
        """Replace the calling thread, which is about to block."""
        with self._changed:
            if threading.current_thread() is self._server:
                self._succeed()

    def _succeed(self) -> None:
        self._running = self._server = None
        self._start()

    def _has_work_of(self, share: Share) -> bool:
        entries = [*self._queue, *([self._running] if self._running else [])]
        return self._stuck is None and any(entry.share is share for entry in entries)

    def _failed(self, share: Share, error: KnltrainError) -> list[_Entry]:
        """Remove and return the operations that fail with a share; needs the lock."""
        share.error = share.error or error
        running = self._running
        if running is None or running.share is not share or running.operation.is_foreign:
            failed = [entry for entry in self._queue if entry.share is share]
            self._queue = deque(entry for entry in self._queue if entry.share is not share)
            return failed
        self._stuck = self._stuck or error
        failed = [running, *self._queue]
        self._queue.clear()
        self._changed.notify_all()
        return failed

    def _serve(self) -> None:
        me = threading.current_thread()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._server is not me)
                if not self._queue or self._server is not me:
                    return
                self._running = self._queue.popleft()
                self._running.begun = time.monotonic()
                operation = self._running.operation
                self._changed.notify_all()
            operation.run()
            with self._changed:
                if self._server is not me:
                    return
                self._running = None
                self._changed.notify_all()
            del operation

    def _keep_time(self) -> None:
        me = threading.current_thread()
        failed: list[_Entry] = []
        while not failed:
            with self._changed:
                if self._stuck is not None or self._timekeeper is not me:
                    return
                late = self._running
                left = late.left() if late else None
                if late is None or left is None or left > 0:
                    self._changed.wait(left)
                    continue
                if late.operation.is_foreign:
                    self._succeed()
                    continue
                error = late.lateness()
                failed = self._failed(late.share, error)
        for entry in failed:
            entry.operation.finish(error)


@functools.cache
def lane() -> Lane:
    """Return the lane of this process."""
    return Lane()
