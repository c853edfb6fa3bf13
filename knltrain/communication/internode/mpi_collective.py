"""The collective between nodes by MPI, which needs no launcher of MPI."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import numpy.typing as npt

from knltrain.communication.internode.collective import ByteArray, NodeCollective
from knltrain.communication.mpi.completion import Completion
from knltrain.communication.mpi.joining import join_mpi, leave_mpi
from knltrain.communication.rendezvous.key_value_store import KeyValueStore
from knltrain.errors import CollectiveError, ExchangeTimeout, KnltrainError
from knltrain.vectors import FloatArray

_LEAVE_SECONDS = 5.0


@final
class MpiCollective(NodeCollective):
    """The first worker of ``node``, one of ``nodes`` that find each other by ``store``.

    ``own_address`` is the address of this computer from which the others are reached. An operation
    may take ``timeout_seconds``; the rendezvous may take ``longest_seconds``, and so may a `gather`
    that asks for it. Sums are a reduce-scatter and an all-gather: each element is added up at one
    node, so all nodes get the same bits. MPI's own all-reduce does not promise that. Raises what
    `join_mpi` does.
    """

    name = "mpi"

    def __init__(
        self,
        node: int,
        nodes: int,
        store: KeyValueStore,
        own_address: str | None,
        timeout_seconds: float,
        longest_seconds: float,
    ) -> None:
        self.node, self.nodes = node, nodes
        self._mpi = join_mpi(node, nodes, store, longest_seconds, own_address)
        self._group = self._mpi.COMM_WORLD
        self._timeout_seconds = timeout_seconds
        self._completion = Completion(self._mpi, timeout_seconds)
        self._piece: FloatArray = np.zeros(0, np.float32)
        self._has_failed = False

    def all_reduce(self, values: FloatArray, at: int = 0) -> None:  # noqa: ARG002
        """Replace ``values`` (n,) by their sum over all nodes."""
        counts = [len(part) for part in np.array_split(values, self.nodes)]
        own, kind = self._own_piece(counts[self.node]), self._mpi.FLOAT
        self._finish(
            "all_reduce",
            self._group.Ireduce_scatter([values, kind], [own, kind], counts, self._mpi.SUM),
        )
        found = [values, (counts, None), kind]
        self._finish("all_reduce", self._group.Iallgatherv([own, kind], found))

    def reduce(self, values: FloatArray) -> None:
        """Replace ``values`` (n,) of node 0 by the sum."""
        of_all = [values, self._mpi.FLOAT]
        given: Any = self._mpi.IN_PLACE if self.node == 0 else of_all
        self._finish("reduce", self._group.Ireduce(given, of_all if self.node == 0 else None))

    def broadcast(self, values: FloatArray) -> None:
        """Replace ``values`` (n,) by those of node 0."""
        self._finish("broadcast", self._group.Ibcast([values, self._mpi.FLOAT]))

    def gather(
        self, values: npt.NDArray[np.float64], timeout_seconds: float | None = None
    ) -> npt.NDArray[np.float64]:
        """Return the ``values`` (k,) of all nodes, (nodes, k)."""
        found = np.zeros((self.nodes, len(values)))
        request = self._group.Iallgather(np.ascontiguousarray(values), found)
        self._finish("gather", request, timeout_seconds)
        return found

    def all_gather(self, given: ByteArray, found: ByteArray) -> None:
        """Gather the ``given`` bytes (b,) of all nodes to ``found`` (nodes, b)."""
        self._finish("all_gather", self._group.Iallgather(given, found))

    def all_to_all(self, given: ByteArray, found: ByteArray) -> None:
        """Send row r of ``given`` (nodes, b) to node r; receive into ``found`` (nodes, b)."""
        self._finish("all_to_all", self._group.Ialltoall(given, found))

    def close(self) -> None:
        """Finalise MPI, unless an operation has failed: the others may not join in then."""
        self._piece = np.zeros(0, np.float32)
        if not self._has_failed:
            leave_mpi(_LEAVE_SECONDS)

    def _own_piece(self, size: int) -> FloatArray:
        """Return memory for the piece that this node adds up; allocated at the first call."""
        if self._piece.size < size:
            self._piece = np.zeros(size, np.float32)
        return self._piece[:size]

    def _finish(self, what: str, request: Any, timeout_seconds: float | None = None) -> None:
        """Wait for an operation. A failure ends the run: MPI cannot cancel the operation."""
        limit_seconds = max(timeout_seconds or 0.0, self._timeout_seconds)
        try:
            self._completion.of([request], lambda: "the other nodes", limit_seconds)
        except ExchangeTimeout as error:
            self._has_failed = True
            raise ExchangeTimeout(
                f"{what} between nodes by 'mpi' took more than {limit_seconds:g} s; if a node can "
                "be so much slower than the others, raise exchange.timeout_seconds"
            ) from error
        except KnltrainError:
            self._has_failed = True
            raise
        except self._mpi.Exception as error:
            self._has_failed = True
            raise CollectiveError(f"{what} between nodes by 'mpi' failed: {error}") from error
