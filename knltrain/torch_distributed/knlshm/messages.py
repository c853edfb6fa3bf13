"""Point-to-point messages, by torch's method names."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from knltrain.communication.collectives import PointToPoint
from knltrain.communication.collectives.message import ANY_RANK, Request
from knltrain.torch_distributed.member import Member
from knltrain.torch_distributed.tensors import memory_of
from knltrain.torch_distributed.work import Operation, is_profiled


class Messages(Member):
    """Send and receive; neither blocks, so a rank may call both in any order."""

    @abstractmethod
    def mail(self) -> PointToPoint:
        """Return the way for messages to single ranks."""

    def send(self, tensors: list[Tensor], dstRank: int, tag: int = 0) -> Operation:  # noqa: N803
        """Begin to send a tensor."""
        operation, request = self._request("send", tensors, dstRank, tag)
        self.mail().send(request)
        return operation

    def recv(self, tensors: list[Tensor], srcRank: int, tag: int = 0) -> Operation:  # noqa: N803
        """Begin to receive a tensor."""
        operation, request = self._request("recv", tensors, srcRank, tag)
        self.mail().receive(request)
        return operation

    def recv_anysource(self, tensors: list[Tensor], tag: int = 0) -> Operation:
        """Begin to receive a tensor of whichever rank sends one under ``tag``."""
        operation, request = self._request("recvAnySource", tensors, ANY_RANK, tag)
        self.mail().receive(request)
        return operation

    def _request(
        self, title: str, tensors: list[Tensor], rank: int, tag: int
    ) -> tuple[Operation, Request]:
        operation = Operation(tensors)
        if is_profiled():
            operation.show(f"{self._backend}:{title}", tensors)
        address, bytes_ = memory_of(tensors[0])
        return operation, Request(rank, tag, address, bytes_, operation.finish, self._limit_seconds)
