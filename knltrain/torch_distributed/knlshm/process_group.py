"""The process group of the backend ``knlshm``."""

from __future__ import annotations

from functools import partial
from typing import final

from knltrain.communication.collectives import Group, GroupSegment, PointToPoint
from knltrain.communication.collectives.peer_wait import PeerWait
from knltrain.errors import CollectiveError
from knltrain.torch_distributed.knlshm.messages import Messages
from knltrain.torch_distributed.member import DESTROYED, LAST_WORK_SECONDS
from knltrain.torch_distributed.movements import Movements
from knltrain.torch_distributed.order import Order
from knltrain.torch_distributed.reductions import Reductions

BACKEND = "knlshm"


@final
class KnlshmProcessGroup(Movements, Reductions, Messages):
    """Ranks of one computer that exchange tensors through shared memory.

    Operations are done in the order of their calls; a thread of the group does asynchronous ones.
    Several groups work at the same time. All ranks get the same bits, in every run. Methods have
    the names that torch calls, in all supported versions.
    """

    def __init__(self, segment: GroupSegment, group: Group, mail: PointToPoint) -> None:
        order = Order(BACKEND)
        super().__init__(BACKEND, group, order, partial(_leave, segment, group, mail, order))
        self._peer_wait: PeerWait | None = group.peer_wait
        self._mail: PointToPoint | None = mail

    def mail(self) -> PointToPoint:
        """Return the way for messages to single ranks."""
        if self._mail is None:
            raise CollectiveError(DESTROYED)
        return self._mail

    def shutdown(self) -> None:
        """Leave the group; pending operations have some seconds to finish."""
        self._mail = self._peer_wait = None
        super().shutdown()

    def break_off(self) -> None:
        """Fail pending operations, here and at the other ranks."""
        if self._peer_wait is not None:
            self._peer_wait.end()


def _leave(segment: GroupSegment, group: Group, mail: PointToPoint, order: Order) -> None:
    if not order.close(LAST_WORK_SECONDS):
        group.peer_wait.end()
        order.close(LAST_WORK_SECONDS)
    mail.close()
    segment.leave(group.rank)
