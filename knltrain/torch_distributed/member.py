"""The base of process groups: the attributes that torch reads, the queues, and the end."""

from __future__ import annotations

import os
import weakref
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from knltrain.communication.collectives import Collectives
from knltrain.errors import CollectiveError
from knltrain.torch_distributed.serving import step_aside
from knltrain.torch_distributed.staging import Staging
from knltrain.torch_distributed.tracing import leave_alone
from knltrain.torch_distributed.work import Operation, is_profiled

DESTROYED = "the process group was destroyed: make another one"
LAST_WORK_SECONDS = 5.0
"""How long a group that is destroyed waits for its pending operations."""

CPU = torch.device("cpu")
_UNSET = timedelta(0)
_HELD = 256
"""How many operations on single numbers are held: where ranks join early (DDP.join), torch keeps
its own half of one that nobody else holds, and reads the number during the backward pass."""


class Queue(Protocol):
    """A queue of operations."""

    def put(self, operation: Operation, is_awaited: bool, limit: float) -> Operation:
        """Queue an operation, for which others may be ``limit`` seconds late."""


_ProcessGroup: Any = dist.ProcessGroup
"""Methods of the same name take other arguments from one version of torch to the next."""


class Member(_ProcessGroup):  # type: ignore[misc]
    """The base class of process groups."""

    def __init_subclass__(cls) -> None:
        leave_alone(cls)

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
        self._sequence_number = 0
        self._held: deque[Operation] = deque(maxlen=_HELD)
        # Without a Backend behind it: torch only looks which devices are served.
        self._register_backend(CPU, dist.ProcessGroup.BackendType.CUSTOM, None)
        self._end = weakref.finalize(self, _leave_here, leave, os.getpid())

    def submit(
        self,
        method: str,
        calls: Sequence[tuple[Any, ...]],
        results: Sequence[Tensor],
        options: Any,
        kept: Any = None,
        staging: Staging | None = None,
    ) -> Operation:
        """Queue calls of a ``method`` of `Collectives`, one with each of ``calls``.

        Synchronous operations are done at once if possible. ``kept`` are tensors other than the
        ``results`` whose memory is needed until then; ``staging`` has copies of some.
        """

        def perform(collectives: Collectives, limit: float, _kept: Any = kept) -> None:
            call_one = getattr(collectives, method)
            if staging is not None:
                staging.fill()
            for call in calls:
                call_one(*call, limit)
            if staging is not None:
                staging.give_back()

        return self.perform(method, perform, results, options, results if kept is None else kept)

    def perform(
        self,
        name: str,
        steps: Callable[[Collectives, float], None],
        results: Sequence[Tensor],
        options: Any,
        given: Sequence[Any],
    ) -> Operation:
        """Queue a call of ``steps`` with the collectives and the time limit in seconds.

        ``given`` are the tensors whose shapes torch's profiler shows.
        """
        collectives, queue = self.way()
        limit, is_async = self._limit_seconds, True
        if options is not None:
            is_async = options.asyncOp
            if options.timeout > _UNSET:
                limit = options.timeout.total_seconds()
        operation = Operation(results, lambda: steps(collectives, limit))
        if is_profiled():
            operation.show(f"{self._backend}:{name}", _flat(given))
            is_async = True  # the profiler's end is written by another thread
        self._sequence_number += 1
        if is_async and len(results) == 1 and results[0].numel() == 1:
            self._held.append(operation)
        return queue.put(operation, not is_async, limit)

    def way(self) -> tuple[Collectives, Queue]:
        """Return the collectives and the queue; CollectiveError after the group was left."""
        if self._collectives is None:
            raise CollectiveError(DESTROYED)
        return self._collectives, self._queue

    def queues(self) -> Sequence[Queue]:
        """Return all queues of operations; CollectiveError after the group was left."""
        return [self.way()[1]]

    def root_of(self, options: Any) -> int:
        """Return the rank that ``options`` name as the root; CollectiveError if there is none."""
        root = int(options.rootRank)
        if not 0 <= root < self._ranks:
            raise CollectiveError(
                f"root {root}: expected a rank of the group, 0 to {self._ranks - 1}"
            )
        return root

    def check_number(self, tensors: Sequence[Tensor]) -> None:
        """Raise CollectiveError unless there is a tensor for each rank."""
        if len(tensors) != self._ranks:
            raise CollectiveError(
                f"got {len(tensors)} tensors: expected {self._ranks}, one for each rank"
            )

    def _start_coalescing(self, _device: Any) -> None:
        """Do nothing: operations begin when they are called."""

    def _end_coalescing(self, _device: Any) -> Operation:
        """Return an operation that is done when all before it are, except messages."""
        return self.submit("barrier", [], [], None)

    def _wait_for_pending_works(self) -> None:
        """Return when all operations so far have ended, also with errors, except messages."""
        step_aside()
        limit = self._limit_seconds
        for end in [queue.put(Operation([]), False, limit) for queue in self.queues()]:
            end.wait()

    def _has_hooks(self) -> bool:
        """Return False: there are no completion hooks; use the future of an operation."""
        return False

    def _register_on_completion_hook(self, _hook: Any) -> None:
        raise CollectiveError(
            f"a group of '{self._backend}' calls no hook when operations are done: use the future "
            "of each (work.get_future().then)"
        )

    def split_group(self, *_given: Any, **_named: Any) -> Any:
        """Refuse it, CollectiveError: torch would look for a backend in C++, and crash."""
        raise CollectiveError(
            f"a group of '{self._backend}' cannot be split: make one of some ranks with new_group"
        )

    def merge_remote_group(self, *_given: Any, **_named: Any) -> Any:
        """Refuse it, CollectiveError, as ``split_group``."""
        raise CollectiveError(
            f"a group of '{self._backend}' cannot be merged: make one of all ranks with new_group"
        )

    def shutdown(self) -> None:
        """Leave the group; pending operations have some seconds to finish."""
        self._collectives = None
        self._held.clear()  # which know the collectives, and with them their memory
        self._end()

    def abort(self) -> None:
        """Break the group: pending operations fail."""
        if self._collectives is not None:
            self.break_off()
        self.shutdown()

    @abstractmethod
    def break_off(self) -> None:
        """Fail pending operations."""

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

    def set_timeout(self, timeout: timedelta) -> None:
        """Give the operations that are called from now on another limit."""
        self._limit_seconds = timeout.total_seconds()

    _set_default_timeout = set_timeout

    def _get_backend(self, device: torch.device) -> Any:
        """Return what serves a device: for the CPU this group, which is its own backend."""
        if torch.device(device).type != CPU.type:
            raise CollectiveError(
                f"no backend of this group serves {device}: '{self._backend}' serves cpu; make "
                "another group for other devices (new_group)"
            )
        return self

    def _get_backend_name(self) -> str:
        return self._backend

    supports_splitting = supports_coalescing = supports_time_estimate = False

    def supports_tensor_alloc(self, _device: torch.device) -> bool:
        """Tell that tensors are allocated as any others."""
        return False

    def _get_sequence_number_for_group(self) -> int:
        """Return how many collective operations were called here."""
        return self._sequence_number

    def _set_sequence_number_for_group(self) -> None:
        """Do nothing: all ranks begin at 0."""


leave_alone(Member)


def _flat(tensors: Sequence[Any]) -> list[Tensor]:
    return [
        tensor
        for each in tensors
        for tensor in ([each] if isinstance(each, Tensor) else _flat(each))
    ]


def _leave_here(leave: Callable[[], None], pid: int) -> None:
    if os.getpid() == pid:  # a forked process has none of the threads, and is no rank
        leave()
