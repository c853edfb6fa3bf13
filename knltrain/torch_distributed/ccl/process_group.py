"""The process group of the backend ``ccl``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, final

from torch import Tensor

from knltrain.communication.collectives import Collectives
from knltrain.errors import CollectiveError
from knltrain.torch_distributed.ccl.collectives import OnecclCollectives
from knltrain.torch_distributed.ccl.gloo_collectives import GlooCollectives
from knltrain.torch_distributed.ccl.lane import Share
from knltrain.torch_distributed.member import DESTROYED, Queue
from knltrain.torch_distributed.movements import Movements
from knltrain.torch_distributed.order import Order
from knltrain.torch_distributed.reductions import Reductions
from knltrain.torch_distributed.work import Operation, is_profiled

BACKEND = "ccl"
_TITLES = {"recv_anysource": "recvAnySource"}


@final
class CclProcessGroup(Movements, Reductions):
    """Ranks of any computers that exchange tensors by oneCCL.

    One background thread does the operations of all these groups of a process, in the order of
    their calls. Ranks that are in several groups must call operations in the same order. gloo does,
    in an order of this group's own (``beside``), messages to single ranks, and operations called in
    other threads than the one that made the first group.
    """

    def __init__(
        self,
        collectives: OnecclCollectives,
        share: Share,
        beside: GlooCollectives,
        order: Order,
        gloo: Any,
        leave: Callable[[], None],
    ) -> None:
        super().__init__(BACKEND, collectives, share, leave)
        self._share, self._beside, self._order = share, beside, order
        self._gloo: Any = gloo

    def send(self, tensors: list[Tensor], dstRank: int, tag: int = 0) -> Any:  # noqa: N803
        """Begin to send a tensor."""
        return self._message("send", tensors, dstRank, tag)

    def recv(self, tensors: list[Tensor], srcRank: int, tag: int = 0) -> Any:  # noqa: N803
        """Begin to receive a tensor."""
        return self._message("recv", tensors, srcRank, tag)

    def recv_anysource(self, tensors: list[Tensor], tag: int = 0) -> Any:
        """Begin to receive a tensor of whichever rank sends one under ``tag``."""
        return self._message("recv_anysource", tensors, tag)

    def way(self) -> tuple[Collectives, Queue]:
        """Return the collectives and the queue for operations of the calling thread."""
        by_oneccl = super().way()
        return by_oneccl if self._share.is_at_home() else (self._beside, self._order)

    def queues(self) -> Sequence[Queue]:
        """Return all queues of operations; CollectiveError after the group was left."""
        super().way()
        return [self._share, self._order]

    def shutdown(self) -> None:
        """Leave the group; pending operations have some seconds to finish."""
        self._gloo = None
        super().shutdown()

    def break_off(self) -> None:
        """Fail this rank's pending operations."""
        self._share.fail(CollectiveError("the process group was aborted by this rank"))

    def _message(self, method: str, tensors: list[Tensor], *rest: int) -> Any:
        work = getattr(self._messages(), method)(tensors, *rest)
        if not is_profiled():
            return work
        operation = Operation(tensors)
        operation.show(f"{self._backend}:{_TITLES.get(method, method)}", tensors)
        follow = partial(_follow, operation, work, method != "send")
        threading.Thread(target=follow, name="gloo", daemon=True).start()
        return operation

    def _messages(self) -> Any:
        if self._gloo is None:
            raise CollectiveError(DESTROYED)
        return self._gloo


def _follow(operation: Operation, work: Any, has_source: bool) -> None:
    """Finish an operation when gloo's ends."""
    try:
        work.wait()
    except RuntimeError as error:
        operation.finish(error)
    else:
        operation.finish(None, work._source_rank() if has_source else -1)
