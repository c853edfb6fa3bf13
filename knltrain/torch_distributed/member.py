"""A rank's membership in a group, as torch sees it: its names, its order of work, its end."""

from __future__ import annotations

import os
import weakref
from abc import abstractmethod
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Protocol

import torch.distributed as dist
from torch import Tensor

from knltrain.errors import CollectiveError
from knltrain.exchange.collectives import Collectives
from knltrain.torch_distributed.work import Operation

DESTROYED = "the process group was destroyed: make another one"
LAST_WORK_SECONDS = 5.0
"""How long a group that is destroyed waits for operations that nobody has waited for."""

_UNSET = timedelta(0)


class Queue(Protocol):
    """Where operations are put to be done, each after those before it."""

    def put(self, operation: Operation, is_awaited: bool, limit: float) -> Operation:
        """Take an operation, for which others may be ``limit`` seconds late."""


_ProcessGroup: Any = dist.ProcessGroup
"""Methods of the same name take other arguments from one version of torch to the next."""


class Member(_ProcessGroup):  # type: ignore[misc]
    """What all of a process group's operations build on."""

    def __init__(
        self, backend: str, collectives: Collectives, queue: Queue, leave: Callable[[], None]
    ) -> None:
        super().__init__(collectives.rank, collectives.ranks)
        self._backend = backend
        self._rank, self._ranks = collectives.rank, collectives.ranks
        self._collectives: Collectives | None = collectives
        self._queue = queue
        self._limit_seconds = collectives.timeout_seconds
        self._name = self._description = ""
        self._end = weakref.finalize(self, _leave_here, leave, os.getpid())

    def submit(
        self,
        method: str,
        calls: Sequence[tuple[Any, ...]],
        results: Sequence[Tensor],
        options: Any,
        kept: Any = None,
    ) -> Operation:
        """Have a ``method`` of `Collectives` called with each of ``calls``, after all before it.

        That is now if torch is to wait for it anyway. ``kept`` are tensors other than the
        ``results`` whose memory is needed until then.
        """
        if self._collectives is None:
            raise CollectiveError(DESTROYED)
        call_one = getattr(self._collectives, method)
        limit, is_async = self._limit_seconds, True
        if options is not None:
            is_async = options.asyncOp
            if options.timeout > _UNSET:
                limit = options.timeout.total_seconds()

        def do(_kept: Any = kept) -> None:
            for call in calls:
                call_one(*call, limit)

        return self._queue.put(Operation(results, do), not is_async, limit)

    def _start_coalescing(self, _device: Any) -> None:
        """Do nothing: operations begin when they are called."""

    def _end_coalescing(self, _device: Any) -> Operation:
        """Return what is done when all operations so far are, but for messages."""
        return self.submit("barrier", [], [], None)

    def shutdown(self) -> None:
        """Leave the group; what is under way has some seconds to finish."""
        self._collectives = None
        self._end()

    def abort(self) -> None:
        """Break the group: operations under way fail."""
        if self._collectives is not None:
            self.break_off()
        self.shutdown()

    @abstractmethod
    def break_off(self) -> None:
        """Have operations under way fail."""

    def getBackendName(self) -> str:  # noqa: N802
        """Return the name that init_process_group takes."""
        return self._backend

    def getRank(self) -> int:  # noqa: N802
        """Return this process's rank in the group."""
        return self._rank

    def getSize(self) -> int:  # noqa: N802
        """Return the number of ranks."""
        return self._ranks

    def setGroupName(self, name: str) -> None:  # noqa: N802
        """Take the name that torch gives the group."""
        self._name = name

    def getGroupName(self) -> str:  # noqa: N802
        """Return it."""
        return self._name

    def setGroupDesc(self, description: str) -> None:  # noqa: N802
        """Take what the user says the group is for."""
        self._description = description

    def getGroupDesc(self) -> str:  # noqa: N802
        """Return it."""
        return self._description

    def _set_sequence_number_for_group(self) -> None:
        """Do nothing: operations are numbered in the segment."""


def _leave_here(leave: Callable[[], None], pid: int) -> None:
    if os.getpid() == pid:  # a forked process has none of the threads, and is no rank
        leave()
