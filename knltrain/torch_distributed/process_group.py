"""The process group that torch gets from the backend."""

from __future__ import annotations

from typing import Any, final

from knltrain.exchange.collectives import Group
from knltrain.torch_distributed.member import BACKEND
from knltrain.torch_distributed.messages import Messages
from knltrain.torch_distributed.movements import Movements
from knltrain.torch_distributed.reductions import Reductions
from knltrain.torch_distributed.work import Operation

__all__ = ["BACKEND", "KnlshmProcessGroup"]


@final
class KnlshmProcessGroup(Movements, Reductions, Messages):
    """Ranks of one computer that exchange tensors through shared memory.

    Operations are done in the order of their calls, those that torch does not wait for in a thread
    of the group's own; several groups do theirs at the same time. All ranks get the same bits, and
    the same in every run. Methods have the names that torch of any supported version calls.
    """

    def _start_coalescing(self, _device: Any) -> None:
        """Do nothing: operations begin when they are called."""

    def _end_coalescing(self, _device: Any) -> Operation:
        """Return what is done when all operations so far are."""
        return self.submit(Group.barrier, [], [], None)
