"""The seam between an exchange of nodes and the way in which vectors are written to be sent."""

from __future__ import annotations

from abc import ABC, abstractmethod

from knltrain.communication.internode.collective import ByteArray
from knltrain.vectors import FloatArray

ALIGNMENT = 64
"""What is encoded takes a multiple of so many bytes, a cache line, and begins at one."""


class WireFormat(ABC):
    """A way to write a vector of float32 in fewer bytes.

    All vectors are contiguous, nothing overlaps. The same bytes are decoded to the same bits by
    everyone. A NaN or an infinity does not get lost: where one was encoded, NaN or an infinity is
    decoded.
    """

    name: str
    """As `exchange.wire_format` has it."""

    keeps_residual: bool
    """Whether what is lost is kept and goes with what is encoded next (error feedback)."""

    @abstractmethod
    def bytes_for(self, count: int) -> int:
        """Return how many bytes ``count`` values take, a multiple of `ALIGNMENT`."""

    @abstractmethod
    def encode(self, values: FloatArray, residual: FloatArray, out: ByteArray) -> None:
        """Write ``values`` (n,), n >= 1, plus ``residual`` (n,) to ``out`` (`bytes_for` (n),).

        ``residual`` becomes what was lost; it has no elements where the format keeps none.
        """

    @abstractmethod
    def decode_add(self, encoded: ByteArray, total: FloatArray) -> None:
        """Add the values of ``encoded`` (`bytes_for` (n),) to ``total`` (n,), n >= 1."""


def whole_lines(bytes_: int) -> int:
    """Round up to a multiple of `ALIGNMENT`."""
    return -(-bytes_ // ALIGNMENT) * ALIGNMENT
