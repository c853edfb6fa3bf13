"""The queue of a group's operations: one after the other, in a background thread."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import final

from knltrain.errors import CollectiveError
from knltrain.torch_distributed.serving import LONGEST_PATIENCE_SECONDS, Server, peer_wait
from knltrain.torch_distributed.work import Announcement, Operation


@final
class Order:
    """Does operations one after the other, in a thread called ``name``.

    A synchronous operation is done in the calling thread if none is before it: a hand-over takes
    longer than the operation. Callbacks of futures run in the same order. If one blocks, or delays
    the operations, another thread takes over, and the callback's thread is left alone.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: deque[Operation | Announcement] = deque()
        lock = threading.RLock()
        self._changed, self._called = threading.Condition(lock), threading.Condition(lock)
        self._doing = threading.Lock()
        self._pending = 0
        self._closing = False
        self._server: Server | None = None
        self._watcher: threading.Thread | None = None
        self._is_watched = False
        self._calling_since: float | None = None
        self._calls = 0
        self._peer_wait = LONGEST_PATIENCE_SECONDS

    def put(self, operation: Operation, is_awaited: bool, limit: float) -> Operation:
        """Do an operation now or later; ``is_awaited`` says that the caller waits for it.

        Operations keep their time limits themselves.
        """
        if threading.current_thread() is self._server:
            return self._done_within(operation)
        if (
            is_awaited
            and not (self._pending or self._closing)
            and self._doing.acquire(blocking=False)
        ):
            try:
                if not self._pending:
                    operation.run()
                    return operation
            finally:
                self._doing.release()
        operation.behind = self._announce
        self._peer_wait = peer_wait(limit)
        if not self._append(operation):
            raise CollectiveError("the process group was destroyed: make another one")
        return operation

    def close(self, limit_seconds: float) -> bool:
        """End the thread after its pending operations; tell whether it ended in time."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            self._called.notify_all()
            server, watcher = self._server, self._watcher
        if server is None or server is threading.current_thread():
            return True
        server.join(limit_seconds)
        with self._changed:
            if self._calling_since is not None:  # it is not the group that it waits for
                self._calling_since = self._server = None
                self._called.notify_all()
        if watcher is not None:
            watcher.join(limit_seconds)
        if self._server is not None and self._server.is_alive():
            return False
        self._server = self._watcher = None  # which know this, and would keep memory with it
        return True

    def _append(self, entry: Operation | Announcement) -> bool:
        with self._changed:
            if self._closing:
                return False
            if self._server is None:
                self._start()
            self._pending += 1
            self._queue.append(entry)
            self._changed.notify()
        return True

    def _announce(self, announcement: Announcement) -> None:
        if self._watcher is None:
            with self._changed:
                self._watcher = self._watcher or self._started_watcher()
        if not self._append(announcement):
            announcement.finish()

    def _done_within(self, operation: Operation) -> Operation:
        """Do an operation that a future's callback has called, at its place in the order."""
        with self._doing:
            self._calling_since = None
            operation.run()
            self._calling_since = time.monotonic()
        return operation

    def _start(self) -> None:
        self._server = Server(self._name, self._serve, self._replace)
        self._server.start()

    def _serve(self) -> None:
        me = threading.current_thread()
        while True:
            with self._changed:
                while not self._queue and not self._closing:
                    self._changed.wait()
                if not self._queue:
                    self._called.notify_all()
                    return
                entry = self._queue.popleft()
            if isinstance(entry, Announcement):
                if not self._call(entry, me):
                    return
            else:
                with self._doing:
                    entry.run()
                    self._pending -= 1
            del entry

    def _call(self, announcement: Announcement, me: threading.Thread) -> bool:
        """Run a future's callbacks; tell whether this is still the thread of the queue."""
        self._calling_since = time.monotonic()
        self._calls += 1
        if not self._is_watched:
            with self._changed:
                self._called.notify()
        announcement.run()
        with self._changed:
            if self._server is not me:
                return False
            self._calling_since = None
            self._pending -= 1
        return True

    def _replace(self) -> None:
        """Replace the calling thread, which is about to block."""
        with self._changed:
            if threading.current_thread() is self._server:
                self._succeed()

    def _succeed(self) -> None:
        self._calling_since = None
        self._pending -= 1
        self._start()

    def _started_watcher(self) -> threading.Thread:
        watcher = threading.Thread(target=self._watch, name=f"{self._name} watch", daemon=True)
        watcher.start()
        return watcher

    def _watch(self) -> None:
        """Replace a thread that is stuck in a callback; polls at long intervals."""
        seen = 0
        with self._changed:
            while not (self._closing and self._is_at_rest()):
                since = self._calling_since
                if since is not None and time.monotonic() - since > self._peer_wait:
                    self._succeed()
                self._is_watched = since is not None or self._calls != seen
                seen = self._calls
                self._called.wait(self._peer_wait / 2 if self._is_watched else None)

    def _is_at_rest(self) -> bool:
        return not self._queue and self._calling_since is None
