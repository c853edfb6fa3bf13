"""A collective of nodes whose sums go over the wire in fewer bytes."""

from __future__ import annotations

from typing import final

import numpy as np
import numpy.typing as npt

from knltrain.communication.internode.collective import ByteArray, NodeCollective
from knltrain.communication.internode.wire.traffic import goes_at_once, piece_floats, pieces
from knltrain.communication.internode.wire.wire_format import WireFormat
from knltrain.vectors import FloatArray, aligned_zeros

_FLOAT_BYTES = 4


@final
class Compressed(NodeCollective):
    """Sums of vectors of up to ``size`` values by ``inner``, encoded by ``wire_format``.

    Two nodes send each other all they have, and both add up what the two have sent. Of more, each
    owns a piece of the vector: it adds what the others send of that to what it has itself, and
    sends the sum to all. So every node decodes the same bytes, and has the same bits. What encoding
    loses stays in ``residual``, at its place in the vector, with the node that has encoded it, and
    goes with what that encodes next: the values and residuals of all nodes before add up to the
    sum that all get and the residuals after, up to rounding. Formats that keep no residual lose
    what they round. All but sums over all nodes is float32, by ``inner``. Memory is made here.
    """

    def __init__(self, inner: NodeCollective, wire_format: WireFormat, size: int) -> None:
        self.name, self.node, self.nodes = inner.name, inner.node, inner.nodes
        self._inner, self._format = inner, wire_format
        self.residual = aligned_zeros(size if wire_format.keeps_residual else 0)
        most = size if goes_at_once(self.nodes) else piece_floats(size, self.nodes)
        row_bytes = wire_format.bytes_for(most)
        rows = 1 if goes_at_once(self.nodes) else self.nodes
        self._given = _bytes(rows * row_bytes)
        self._found = _bytes(self.nodes * row_bytes)

    def all_reduce(self, values: FloatArray, at: int = 0) -> None:
        """Replace ``values`` (n,) by their sum, as it was encoded, to the same bits everywhere."""
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
        """Write what all nodes have ``given`` to ``found``."""
        self._inner.all_gather(given, found)

    def all_to_all(self, given: ByteArray, found: ByteArray) -> None:
        """Write what all nodes have ``given`` for this one to ``found``."""
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
        """View the memory as what this node gives, (R, row_bytes), and what it finds, (P, ...)."""
        given = self._given[: given_rows * row_bytes].reshape(given_rows, row_bytes)
        found = self._found[: self.nodes * row_bytes].reshape(self.nodes, row_bytes)
        return given, found


def _bytes(count: int) -> ByteArray:
    """Zeros that begin at a cache line, touched by the calling thread."""
    return aligned_zeros(count // _FLOAT_BYTES).view(np.uint8)
