"""Messages from one rank to another, in the words torch calls them by."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from knltrain.exchange.collectives import Mail
from knltrain.exchange.collectives.message import ANY_RANK, Request
from knltrain.torch_distributed.member import Member
from knltrain.torch_distributed.tensors import memory_of
from knltrain.torch_distributed.work import Operation


class Messages(Member):
    """Send and receive; neither waits, so a rank may ask for both in any order."""

    @abstractmethod
    def mail(self) -> Mail:
        """Return the way for messages to single ranks."""

    def send(self, tensors: list[Tensor], destination: int, tag: int = 0) -> Operation:
        """Begin to send a tensor."""
        operation, request = self._request(tensors, destination, tag)
        self.mail().send(request)
        return operation

    def recv(self, tensors: list[Tensor], source: int, tag: int = 0) -> Operation:
        """Begin to receive a tensor."""
        operation, request = self._request(tensors, source, tag)
        self.mail().receive(request)
        return operation

    def recv_anysource(self, tensors: list[Tensor], tag: int = 0) -> Operation:
        """Begin to receive a tensor of whichever rank sends one under ``tag``."""
        return self.recv(tensors, ANY_RANK, tag)

    def _request(self, tensors: list[Tensor], rank: int, tag: int) -> tuple[Operation, Request]:
        operation = Operation(tensors)
        address, bytes_ = memory_of(tensors[0])
        return operation, Request(rank, tag, address, bytes_, operation.finish, self._limit_seconds)
