# ruff: noqa: ARG002 (OneNode waits for nothing)
"""The interface of collective operations between nodes, called by the first worker of each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeAlias, final

import numpy as np
import numpy.typing as npt

from knltrain.vectors import FloatArray

ByteArray: TypeAlias = npt.NDArray[np.uint8]


class NodeCollective(ABC):
    """Operations of all nodes, called by the first worker of each, in the same order.

    Vectors are contiguous float32. An operation returns when this node's part is done. It raises
    PeerLost, CollectiveError, or ExchangeTimeout past ``timeout_seconds`` (by default the
    collective's own limit).
    """

    name: str
    """The name of the library that transfers the bytes, such as "ccl"."""

    node: int
    """This node's number, 0 <= node < nodes."""

    nodes: int

    residual: FloatArray = np.zeros(0, np.float32)
    """What the wire format of sums has left out so far, by its place in the whole vector (error
    feedback); (0,) if no residual is kept."""

    @abstractmethod
    def all_reduce(self, values: FloatArray, at: int = 0) -> None:
        """Replace ``values`` (n,) by their sum over all nodes, to the same bits everywhere.

        They are the part of the whole vector that begins ``at`` this element.
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
        """Gather the ``given`` bytes of all nodes, (b,) uint8 each, to ``found`` (nodes, b)."""

    @abstractmethod
    def all_to_all(self, given: ByteArray, found: ByteArray) -> None:
        """Send row r of ``given`` (nodes, b) uint8 to node r.

        Row s of ``found`` (nodes, b) is what node s has sent to this one.
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
        """Do nothing: there are no others."""
