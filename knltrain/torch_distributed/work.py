"""What an operation gives back: a Work that can be waited for, and a Future for those who ask."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any, final

import torch
import torch.distributed as dist

from knltrain.errors import CollectiveError, ExchangeTimeout

_FUTURES = threading.Lock()


@final
class Operation(dist.Work):
    """One operation under way; ``results`` are the tensors that it will have filled.

    ``wait`` raises the very error that ended the operation. The future raises a RuntimeError
    that has its text, as torch keeps no other kind there.
    """

    def __init__(self, results: Any, do: Callable[[], None] | None = None) -> None:
        super().__init__()
        self.do = do
        self.done_in: threading.Thread | None = None
        self._results = results
        self._error: BaseException | None = None
        self._source = -1
        self._under_way = threading.Lock()
        self._under_way.acquire()
        self._is_done = False
        self._trigger: torch.futures.Future[None] | None = None
        self._future: torch.futures.Future[Any] | None = None

    def run(self) -> None:
        """Do it, in the calling thread."""
        error: BaseException | None = None
        try:
            if self.do is not None:
                self.do()
        except BaseException as caught:  # noqa: BLE001 (whoever waits is to have it)
            error = caught
        self.do = None
        self.finish(error)

    def finish(self, error: BaseException | None = None, source: int = -1) -> None:
        """Say that it is done, or how it failed; what is said first holds."""
        with _FUTURES:
            if self._is_done:
                return
            self._error, self._source = error, source
            self._is_done = True
            trigger = self._trigger
        self._under_way.release()
        if trigger is not None:
            trigger.set_result(None)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Return when it is done; raise what it failed with, ExchangeTimeout after ``timeout``.

        Raises CollectiveError in the thread that is to do it: in what a future calls when an
        operation is done, there is no waiting for another one.
        """
        if not self._is_done:
            if threading.current_thread() is self.done_in:
                raise CollectiveError(
                    "waited for an operation in the thread that does it, as in a future's then(): "
                    "expected its own future there (get_future)"
                )
            seconds = timeout.total_seconds() if timeout else -1
            if not self._under_way.acquire(timeout=seconds if seconds > 0 else -1):
                raise ExchangeTimeout(f"waited {seconds:g} s in vain for an operation of this rank")
            self._under_way.release()
        if self._error is not None:
            raise self._error
        return True

    def get_future(self) -> torch.futures.Future[Any]:
        """Return a future of the results."""
        with _FUTURES:
            if self._future is None:
                self._trigger = torch.futures.Future()
                self._future = self._trigger.then(self._outcome)
                if self._is_done:
                    trigger: torch.futures.Future[None] | None = self._trigger
                else:
                    trigger = None
            else:
                return self._future
        if trigger is not None:
            trigger.set_result(None)
        return self._future

    def is_completed(self) -> bool:
        """Tell whether it is done, well or not."""
        return self._is_done

    def is_success(self) -> bool:
        """Tell whether it is done well."""
        return self._is_done and self._error is None

    def exception(self) -> BaseException | None:
        """Return what it failed with."""
        return self._error

    def result(self) -> Any:
        """Return the tensors, once it is done."""
        self.wait()
        return self._results

    def synchronize(self) -> None:
        """Wait."""
        self.wait()

    def source_rank(self) -> int:
        """Return the rank in the group that a received message came from."""
        return self._source

    _source_rank = source_rank

    def _outcome(self, _trigger: torch.futures.Future[None]) -> Any:
        if self._error is not None:
            raise self._error
        return self._results
