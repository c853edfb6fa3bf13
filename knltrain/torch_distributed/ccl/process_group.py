"""The process group that torch gets from the backend ``ccl``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from torch import Tensor

from knltrain.errors import CollectiveError
from knltrain.torch_distributed.ccl.collectives import OnecclCollectives
from knltrain.torch_distributed.ccl.lane import Share
from knltrain.torch_distributed.member import DESTROYED
from knltrain.torch_distributed.movements import Movements
from knltrain.torch_distributed.reductions import Reductions

BACKEND = "ccl"


@final
class CclProcessGroup(Movements, Reductions):
    """Ranks of any computers that exchange tensors by oneCCL.

    Operations of all such groups of a process are done one after the other, in the order of their
    calls, in a thread beside the program's. Ranks that are in several groups must call their
    operations in the same order. Messages to single ranks go by ``gloo``.
    """

    def __init__(
        self, collectives: OnecclCollectives, share: Share, gloo: Any, leave: Callable[[], None]
    ) -> None:
        super().__init__(BACKEND, collectives, share, leave)
        self._share = share
        self._gloo: Any = gloo

    def send(self, tensors: list[Tensor], dstRank: int, tag: int = 0) -> Any:  # noqa: N803
        """Begin to send a tensor."""
        return self._messages().send(tensors, dstRank, tag)

    def recv(self, tensors: list[Tensor], srcRank: int, tag: int = 0) -> Any:  # noqa: N803
        """Begin to receive a tensor."""
        return self._messages().recv(tensors, srcRank, tag)

    def recv_anysource(self, tensors: list[Tensor], tag: int = 0) -> Any:
        """Begin to receive a tensor of whichever rank sends one under ``tag``."""
        return self._messages().recv_anysource(tensors, tag)

    def shutdown(self) -> None:
        """Leave the group; what is under way has some seconds to finish."""
        self._gloo = None
        super().shutdown()

    def break_off(self) -> None:
        """Have this rank's operations under way fail."""
        self._share.fail(CollectiveError("the process group was aborted by this rank"))

    def _messages(self) -> Any:
        if self._gloo is None:
            raise CollectiveError(DESTROYED)
        return self._gloo
