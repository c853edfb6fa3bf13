"""A rank's membership in a group, as torch sees it: its names, its order of work, its end."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch import Tensor

from knltrain.errors import CollectiveError
from knltrain.exchange.collectives import Group, GroupSegment, Mail
from knltrain.torch_distributed.order import Order
from knltrain.torch_distributed.work import Operation

BACKEND = "knlshm"

_DESTROYED = "the process group was destroyed: make another one"
_UNSET = timedelta(0)
_LAST_WORK_SECONDS = 5.0
"""How long a group that is destroyed waits for operations that nobody has waited for."""


_ProcessGroup: Any = dist.ProcessGroup
"""Methods of the same name take other arguments from one version of torch to the next."""


class Member(_ProcessGroup):  # type: ignore[misc]
    """What all of a process group's operations build on."""

    def __init__(self, segment: GroupSegment, group: Group, mail: Mail) -> None:
        super().__init__(group.rank, group.ranks)
        self._rank, self._ranks = group.rank, group.ranks
        self._group: Group | None = group
        self._mail: Mail | None = mail
        self._order = Order()
        self._limit_seconds = group.timeout_seconds
        self._name = self._description = ""
        self._end = weakref.finalize(self, _leave, segment, group, mail, self._order, os.getpid())

    def submit(
        self,
        method: Callable[..., None],
        calls: Sequence[tuple[Any, ...]],
        results: Sequence[Tensor],
        options: Any,
        kept: Any = None,
    ) -> Operation:
        """Have a ``method`` of `Group` called with each of ``calls``, in turn with all others.

        That is now if torch is to wait for it anyway. ``kept`` are tensors other than the
        ``results`` whose memory is needed until then.
        """
        group = self._group
        if group is None:
            raise CollectiveError(_DESTROYED)
        limit, is_async = None, True
        if options is not None:
            is_async = options.asyncOp
            given = options.timeout
            limit = given.total_seconds() if given > _UNSET else None

        def do(_kept: Any = kept) -> None:
            for call in calls:
                method(group, *call, limit)

        return self._order.put(Operation(results, do), not is_async)

    def mail(self) -> Mail:
        """Return the way for messages to single ranks."""
        if self._mail is None:
            raise CollectiveError(_DESTROYED)
        return self._mail

    def shutdown(self) -> None:
        """Leave the group; what is under way has some seconds to finish."""
        self._group = self._mail = None
        self._end()

    def abort(self) -> None:
        """Break the group: operations under way fail, here and at the other ranks."""
        if self._group is not None:
            self._group.vigil.end()
        self.shutdown()

    def getBackendName(self) -> str:  # noqa: N802
        """Return the name that init_process_group takes."""
        return BACKEND

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


def _leave(segment: GroupSegment, group: Group, mail: Mail, order: Order, pid: int) -> None:
    if os.getpid() != pid:
        return  # a forked process has none of the threads, and is no rank
    if not order.close(_LAST_WORK_SECONDS):
        group.vigil.end()
        order.close(_LAST_WORK_SECONDS)
    mail.close()
    segment.leave(group.rank)
