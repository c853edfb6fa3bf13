"""The interface of collective operations on memory given by address, below process groups."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

Memory = tuple[int, int]
"""A piece of memory: address, bytes."""


class Collectives(ABC):
    """The collective operations of ``rank``, which all of ``ranks`` call in the same order.

    Every operation returns when this rank's part is done. ``kind`` and ``operation`` are those of
    ``vectorized_ops.reference.reduction``. ``limit`` is for how many seconds others may be late,
    None for the group's own limit.
    """

    rank: int
    ranks: int
    timeout_seconds: float

    @abstractmethod
    def all_reduce(
        self, address: int, count: int, kind: str, operation: int, limit: float | None = None
    ) -> None:
        """Reduce ``count`` elements of ``kind`` of every rank, in place, the same bits for all."""

    @abstractmethod
    def reduce(
        self,
        address: int,
        count: int,
        kind: str,
        operation: int,
        root: int,
        limit: float | None = None,
    ) -> None:
        """Reduce to the memory of ``root`` alone; that of the others stays as it is."""

    @abstractmethod
    def reduce_scatter(
        self,
        sources: Sequence[int],
        target: int,
        count: int,
        kind: str,
        operation: int,
        limit: float | None = None,
    ) -> None:
        """Reduce vector r of the ``sources`` of all ranks, ``count`` elements, to rank r."""

    @abstractmethod
    def broadcast(self, memory: Memory, root: int, limit: float | None = None) -> None:
        """Copy the memory of ``root`` to that of all others."""

    @abstractmethod
    def all_gather(
        self, source: Memory, targets: Sequence[Memory], limit: float | None = None
    ) -> None:
        """Copy the ``source`` of every rank to its place in the ``targets`` (P,) of all."""

    @abstractmethod
    def gather(
        self, source: Memory, targets: Sequence[Memory], root: int, limit: float | None = None
    ) -> None:
        """Copy the ``source`` of every rank to the ``targets`` (P,) of ``root``."""

    @abstractmethod
    def scatter(
        self, sources: Sequence[Memory], target: Memory, root: int, limit: float | None = None
    ) -> None:
        """Copy place r of the ``sources`` (P,) of ``root`` to rank r."""

    @abstractmethod
    def all_to_all(
        self, sources: Sequence[Memory], targets: Sequence[Memory], limit: float | None = None
    ) -> None:
        """Copy place r of the ``sources`` (P,) of rank q to place q of the ``targets`` of rank r.

        Sizes may differ from pair to pair, if sender and receiver agree.
        """

    @abstractmethod
    def barrier(self, limit: float | None = None) -> None:
        """Return when all ranks have called this."""
