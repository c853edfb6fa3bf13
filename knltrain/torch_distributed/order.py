"""The order of a group's operations: one after the other, in a thread beside those that compute."""

from __future__ import annotations

import threading
from collections import deque
from typing import final

from knltrain.errors import CollectiveError
from knltrain.torch_distributed.work import Operation


@final
class Order:
    """Does operations one after the other, in a thread called ``name``.

    One that the caller would wait for anyway is done in the calling thread, if none is before it:
    to hand it over takes longer than to do it.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: deque[Operation] = deque()
        self._changed = threading.Condition()
        self._doing = threading.Lock()
        self._pending = 0
        self._closing = False
        self._thread: threading.Thread | None = None

    def put(self, operation: Operation, is_awaited: bool, limit: float) -> Operation:  # noqa: ARG002
        """Do an operation now or later; ``is_awaited`` says that the caller waits for it.

        Operations keep their time limits themselves.
        """
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
        with self._changed:
            if self._closing:
                raise CollectiveError("the process group was destroyed: make another one")
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
                self._thread.start()
            self._pending += 1
            operation.done_in = self._thread
            self._queue.append(operation)
            self._changed.notify()
        return operation

    def close(self, limit_seconds: float) -> bool:
        """End the thread, once it has done what it was given; tell whether it has in time."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread is None or self._thread is threading.current_thread():
            return True
        self._thread.join(limit_seconds)
        return not self._thread.is_alive()

    def _serve(self) -> None:
        while True:
            with self._changed:
                while not self._queue and not self._closing:
                    self._changed.wait()
                if not self._queue:
                    return
                operation = self._queue.popleft()
            with self._doing:
                operation.run()
                self._pending -= 1
            del operation
