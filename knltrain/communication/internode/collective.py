# ruff: noqa: ARG002 (where there is one node, nothing is waited for)
"""The seam between a node and the others: what the first workers of all nodes do together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeAlias, final

import numpy as np
import numpy.typing as npt

from knltrain.vectors import FloatArray

ByteArray: TypeAlias = npt.NDArray[np.uint8]


class NodeCollective(ABC):
    """Operations of all nodes, called by the first worker of each, in the same order.

    Vectors are contiguous float32. An operation returns when this node's part is done, and raises
    what has failed: PeerLost, ExchangeTimeout past ``timeout_seconds`` (or the collective's own
    limit), CollectiveError.
    """

    name: str
    """What carries the bytes, for people: as in "ccl"."""

    node: int
    """This node's number, 0 <= node < nodes."""

    nodes: int

    residual: FloatArray = np.zeros(0, np.float32)
    """What sums have not carried to the others yet, by its place in the whole vector; (0,) where
    they carry all."""

    @abstractmethod
    def all_reduce(self, values: FloatArray, at: int = 0) -> None:
        """Replace ``values`` (n,) by their sum over all nodes, to the same bits everywhere.

        They begin ``at`` this place of the whole vector, of which a part is exchanged.
        """

    @abstractmethod
    def reduce(self, values: FloatArray) -> None:
        """Replace ``values`` (n,) of node 0 by the sum; what the others have then is undefined."""

    @abstractmethod
    def broadcast(self, values: FloatArray) -> None:
        """Replace ``values`` (n,) by those of node 0."""

    @abstractmethod
    def gather(
        self, values: npt.NDArray[np.float64], timeout_seconds: float | None = None
    ) -> npt.NDArray[np.float64]:
        """Return the ``values`` (k,) of all nodes, (nodes, k)."""

    @abstractmethod
    def all_gather(self, given: ByteArray, found: ByteArray) -> None:
        """Write what all nodes have ``given``, (b,) uint8 each, to ``found`` (nodes, b)."""

    @abstractmethod
    def all_to_all(self, given: ByteArray, found: ByteArray) -> None:
        """Give row r of ``given`` (nodes, b) uint8 to node r, whose row s is that of node s.

        What node s has given for this one is row s of ``found`` (nodes, b).
        """

    @abstractmethod
    def close(self) -> None:
        """Leave the others."""


@final
class OneNode(NodeCollective):
    """A node without others."""

    name = "none"
    node = 0
    nodes = 1

    def all_reduce(self, values: FloatArray, at: int = 0) -> None:
        """Leave them as they are."""

    def reduce(self, values: FloatArray) -> None:
        """Leave them as they are."""

    def broadcast(self, values: FloatArray) -> None:
        """Leave them as they are."""

    def gather(
        self,
        values: npt.NDArray[np.float64],
        timeout_seconds: float | None = None,
    ) -> npt.NDArray[np.float64]:
        """Return those of the one node."""
        return np.array([values])

    def all_gather(self, given: ByteArray, found: ByteArray) -> None:
        """Copy what there is."""
        found[0] = given

    def all_to_all(self, given: ByteArray, found: ByteArray) -> None:
        """Copy what there is."""
        found[:] = given

    def close(self) -> None:
        """There is nobody to leave."""
