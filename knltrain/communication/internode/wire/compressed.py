"""A collective between nodes that sends sums in a wire format of fewer bytes."""

from __future__ import annotations

from typing import final

import numpy as np
import numpy.typing as npt

from knltrain.communication.internode.collective import ByteArray, NodeCollective
from knltrain.communication.internode.wire.traffic import goes_at_once, piece_floats, pieces
from knltrain.communication.internode.wire.wire_format import WireFormat, row_for
from knltrain.vectors import FloatArray, aligned_zeros


@final
class CompressedCollective(NodeCollective):
    """Sums of vectors of up to ``size`` values by ``inner``, encoded by ``wire_format``.

    Two nodes send each other the whole vector, and each adds up both. Of three or more, each node
    owns a piece of the vector: it receives that piece from the others, adds it up, and sends the
    sum to all. So every node decodes the same bytes, and has the same bits.

    The encoding error stays in ``residual`` of the node that encoded, at its place in the vector,
    and is added to what that node encodes next (error feedback). Up to rounding, values plus
    residuals of all nodes before a sum equal the sum plus the residuals after it. Formats that keep
    no residual lose the error. Only `all_reduce` is encoded; all else is float32 by ``inner``.
    Buffers are allocated here.
    """

    def __init__(self, inner: NodeCollective, wire_format: WireFormat, size: int) -> None:
        self.name, self.node, self.nodes = inner.name, inner.node, inner.nodes
        self._inner, self._format = inner, wire_format
        self.residual = aligned_zeros(size if wire_format.keeps_residual else 0)
        most = size if goes_at_once(self.nodes) else piece_floats(size, self.nodes)
        row_bytes = wire_format.bytes_for(most)
        rows = 1 if goes_at_once(self.nodes) else self.nodes
        self._given = row_for(rows * row_bytes)
        self._found = row_for(self.nodes * row_bytes)

    def all_reduce(self, values: FloatArray, at: int = 0) -> None:
        """Replace ``values`` (n,) by their decoded sum, to the same bits everywhere."""
        if not values.size:
            return
        residual = self.residual[at : at + values.size]
        if goes_at_once(self.nodes):
            self._add_at_once(values, residual)
        else:
            self._add_pieces(values, residual)

    def reduce(self, values: FloatArray) -> None:
        """Replace ``values`` (n,) of node 0 by the sum, in float32."""
        self._inner.reduce(values)

    def broadcast(self, values: FloatArray) -> None:
        """Replace ``values`` (n,) by those of node 0, in float32."""
        self._inner.broadcast(values)

    def gather(
        self, values: npt.NDArray[np.float64], timeout_seconds: float | None = None
    ) -> npt.NDArray[np.float64]:
        """Return the ``values`` (k,) of all nodes, (nodes, k)."""
        return self._inner.gather(values, timeout_seconds)

    def all_gather(self, given: ByteArray, found: ByteArray) -> None:
        """Gather the ``given`` bytes of all nodes to ``found``."""
        self._inner.all_gather(given, found)

    def all_to_all(self, given: ByteArray, found: ByteArray) -> None:
        """Send row r of ``given`` to node r; receive into ``found``."""
        self._inner.all_to_all(given, found)

    def close(self) -> None:
        """Leave the others."""
        self.residual = np.zeros(0, np.float32)
        self._given = self._found = np.zeros(0, np.uint8)
        self._inner.close()

    def _add_at_once(self, values: FloatArray, residual: FloatArray) -> None:
        given, found = self._rows(self._format.bytes_for(values.size), 1)
        self._format.encode(values, residual, given[0])
        self._inner.all_gather(given[0], found)
        values[:] = 0
        for row in found:
            self._format.decode_add(row, values)

    def _add_pieces(self, values: FloatArray, residual: FloatArray) -> None:
        cuts = list(pieces(values.size, self.nodes))
        row_bytes = self._format.bytes_for(cuts[0].stop)
        given, found = self._rows(row_bytes, self.nodes)
        for node, cut in enumerate(cuts):
            if node != self.node:
                self._encode(values[cut], residual[cut], given[node])
        self._inner.all_to_all(given, found)
        own = cuts[self.node]
        for node, row in enumerate(found):
            if node != self.node:
                self._decode_add(row, values[own])
        self._encode(values[own], residual[own], given[self.node])
        self._inner.all_gather(given[self.node], found)
        values[:] = 0
        for cut, row in zip(cuts, found, strict=True):
            self._decode_add(row, values[cut])

    def _encode(self, values: FloatArray, residual: FloatArray, row: ByteArray) -> None:
        if values.size:
            self._format.encode(values, residual, row[: self._format.bytes_for(values.size)])

    def _decode_add(self, row: ByteArray, total: FloatArray) -> None:
        if total.size:
            self._format.decode_add(row[: self._format.bytes_for(total.size)], total)

    def _rows(self, row_bytes: int, given_rows: int) -> tuple[ByteArray, ByteArray]:
        """View the buffers as what this node sends, (R, row_bytes), and receives, (P, ...)."""
        given = self._given[: given_rows * row_bytes].reshape(given_rows, row_bytes)
        found = self._found[: self.nodes * row_bytes].reshape(self.nodes, row_bytes)
        return given, found
