"""The collective between nodes whose sums are one-sided writes: GaspiCxx's all-reduces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias, final

import numpy as np
import numpy.typing as npt

from knltrain.communication.communication_cores import made_there
from knltrain.communication.gaspi import AddressSpace, Ranks
from knltrain.communication.internode.collective import ByteArray, NodeCollective
from knltrain.communication.internode.one_sided_sums import (
    DoublingSum,
    OneSidedSum,
    RingSum,
    doubling_slots,
)
from knltrain.errors import CollectiveError, ExchangeTimeout, KnltrainError
from knltrain.vectors import FloatArray

Algorithm: TypeAlias = Literal["auto", "ring", "recursive_doubling"]

_LEAVE_SECONDS = 5.0
SMALL_FLOATS = 2**13
"""Vectors of up to so many values, 32 KiB, are summed in the fewest steps by "auto"."""


@final
class GaspiCollective(NodeCollective):
    """Sums by an ``algorithm`` in the address space of ``ranks``; all else by ``others``.

    "auto" is recursive doubling for small vectors, and a ring for others. Vectors have up to
    ``size`` values. Another node may be late by ``timeout_seconds``. After a failure sums are
    refused.
    """

    name = "gaspi"

    def __init__(
        self,
        others: NodeCollective,
        ranks: Callable[[], Ranks],
        size: int,
        timeout_seconds: float,
        algorithm: Algorithm = "auto",
    ) -> None:
        self.node, self.nodes = others.node, others.nodes
        self._others, self._timeout_seconds = others, timeout_seconds
        self._algorithm: Algorithm = algorithm
        self._size = size
        self._space = made_there(lambda: AddressSpace(ranks(), timeout_seconds=timeout_seconds))
        self._sums: dict[type[OneSidedSum], OneSidedSum] = {}
        self._has_failed = False

    def all_reduce(self, values: FloatArray, at: int = 0) -> None:  # noqa: ARG002
        """Replace ``values`` (n,) by their sum over all nodes."""
        if self._has_failed:
            raise CollectiveError("all_reduce between nodes by 'gaspi': a sum has failed before")
        try:
            self._sum_for(values.size).all_reduce(values)
        except BaseException as error:
            self._has_failed = True
            if isinstance(error, ExchangeTimeout):
                raise ExchangeTimeout(
                    f"all_reduce between nodes by 'gaspi' took more than "
                    f"{self._timeout_seconds:g} s ({error}); if a node can be so much slower than "
                    "the others, raise exchange.timeout_seconds"
                ) from error
            raise

    def reduce(self, values: FloatArray) -> None:
        """Replace ``values`` (n,) of all nodes by the sum."""
        self.all_reduce(values)

    def broadcast(self, values: FloatArray) -> None:
        """Replace ``values`` (n,) by those of node 0."""
        self._others.broadcast(values)

    def gather(
        self, values: npt.NDArray[np.float64], timeout_seconds: float | None = None
    ) -> npt.NDArray[np.float64]:
        """Return the ``values`` (k,) of all nodes, (nodes, k)."""
        return self._others.gather(values, timeout_seconds)

    def all_gather(self, given: ByteArray, found: ByteArray) -> None:
        """Gather the ``given`` bytes (b,) of all nodes to ``found`` (nodes, b)."""
        self._others.all_gather(given, found)

    def all_to_all(self, given: ByteArray, found: ByteArray) -> None:
        """Send row r of ``given`` (nodes, b) to node r; receive into ``found`` (nodes, b)."""
        self._others.all_to_all(given, found)

    def close(self) -> None:
        """Leave the others, if they come in a few seconds, unless a sum has failed."""
        self._sums = {}
        if self._has_failed:
            self._space.abandon()
            return
        try:
            self._space.barrier(_LEAVE_SECONDS)
            self._space.close()
        except KnltrainError:
            self._space.abandon()
        else:
            self._others.close()

    def _sum_for(self, size: int) -> OneSidedSum:
        """Return what sums vectors of a size; all nodes make it at the same call."""
        is_small = self._algorithm == "auto" and size <= SMALL_FLOATS
        doubles = is_small or self._algorithm == "recursive_doubling"
        kind: type[OneSidedSum] = DoublingSum if doubles else RingSum
        if kind not in self._sums:
            room = min(self._size, SMALL_FLOATS) if is_small else self._size
            self._sums[kind] = made_there(lambda: kind(self._space, room, self._timeout_seconds))
        return self._sums[kind]


def slot_vectors(algorithm: Algorithm, nodes: int) -> int:
    """Return how many vectors of the largest size take as much memory as slots for sums do."""
    if algorithm == "recursive_doubling":
        return doubling_slots(nodes)
    return 2
