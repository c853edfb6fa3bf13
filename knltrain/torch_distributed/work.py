"""The result of an asynchronous operation: a Work that can be waited for, and its Future."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, final

import torch
import torch.distributed as dist

from knltrain.errors import ExchangeTimeout
from knltrain.torch_distributed.serving import step_aside
from knltrain.torch_distributed.tracing import leave_alone

_FUTURES = threading.Lock()

is_profiled = torch._C._autograd._profiler_enabled
"""Whether torch's profiler looks at the calling thread."""


@final
class Announcement:
    """Completes the future of an operation; its callbacks may take long, or block."""

    is_foreign = True

    def __init__(self, trigger: torch.futures.Future[None]) -> None:
        self._trigger = trigger

    def run(self) -> None:
        """Complete the future in the calling thread."""
        self._trigger.set_result(None)

    def finish(self, _error: BaseException | None = None) -> None:
        """Complete the future in a new thread, as no queue does it."""
        threading.Thread(target=self.run, name="future", daemon=True).start()


@final
class Operation(dist.Work):
    """One pending operation; ``results`` are the tensors that it fills.

    ``wait`` raises the error that ended the operation. The future raises a RuntimeError with its
    text, the only kind that torch keeps there. If ``behind`` is set, the future's callbacks are
    queued there, in order with the operations after this one.
    """

    is_foreign = False

    def __init__(self, results: Any, do: Callable[[], None] | None = None) -> None:
        super().__init__()
        self.do = do
        self.behind: Callable[[Announcement], None] | None = None
        self._results = results
        self._error: BaseException | None = None
        self._source = -1
        self._under_way = threading.Lock()
        self._under_way.acquire()
        self._is_done = False
        self._shown: torch.futures.Future[None] | None = None
        self._trigger: torch.futures.Future[None] | None = None
        self._future: torch.futures.Future[Any] | None = None

    def show(self, title: str, tensors: Sequence[torch.Tensor]) -> None:
        """Show it in torch's profiler, from now until it is done, with the shapes of tensors."""
        self._shown = torch.futures.Future()
        record = torch._C._autograd._record_function_with_args_enter(title, *tensors)
        torch.ops.profiler._call_end_callbacks_on_jit_fut._RecordFunction(record, self._shown)

    def run(self) -> None:
        """Do the operation in the calling thread."""
        error: BaseException | None = None
        try:
            if self.do is not None:
                self.do()
        except BaseException as caught:  # noqa: BLE001 (`wait` raises it)
            error = caught
        self.do = None
        self.finish(error)

    def finish(self, error: BaseException | None = None, source: int = -1) -> None:
        """Mark it as done, or failed with ``error``; only the first call counts."""
        shown, self._shown = self._shown, None
        if shown is not None:
            shown.set_result(None)
        with _FUTURES:
            if self._is_done:
                return
            self._error, self._source = error, source
            self._is_done = True
            trigger = self._trigger
        self._under_way.release()
        if trigger is not None and self.behind is None:
            Announcement(trigger).finish()

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Return when it is done; raise its error, or ExchangeTimeout after ``timeout``."""
        if not self._is_done:
            step_aside()
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
            if self._future is not None:
                return self._future
            trigger: torch.futures.Future[None] = torch.futures.Future()
            self._future = trigger.then(self._outcome)
            is_done = self._is_done
            if not is_done:
                self._trigger = trigger
        if is_done:
            trigger.set_result(None)
        elif self.behind is not None:
            self.behind(Announcement(trigger))
        return self._future

    def is_completed(self) -> bool:
        """Tell whether it has ended, also with an error."""
        return self._is_done

    def is_success(self) -> bool:
        """Tell whether it has ended without an error."""
        return self._is_done and self._error is None

    def exception(self) -> BaseException | None:
        """Return its error, or None."""
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


leave_alone(Operation)
