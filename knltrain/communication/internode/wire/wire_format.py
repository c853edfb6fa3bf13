"""The interface of wire formats: how vectors are encoded between nodes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np

from knltrain.communication.internode.collective import ByteArray
from knltrain.vectors import FloatArray, aligned_zeros

_FLOAT_BYTES = 4
ALIGNMENT = 64
"""Encoded vectors begin at a cache line, and take a multiple of it; in bytes."""


class WireFormat(ABC):
    """An encoding of a vector of float32 in fewer bytes.

    All vectors are contiguous, and none overlap. Every node decodes the same bytes to the same
    bits. A NaN or an infinity is decoded as NaN or an infinity, never as a finite value.
    """

    name: str
    """Its name in `exchange.wire_format`."""

    keeps_residual: bool
    """Whether the encoding error is kept and added to the next vector (error feedback)."""

    @abstractmethod
    def bytes_for(self, count: int) -> int:
        """Return how many bytes ``count`` values take, a multiple of `ALIGNMENT`."""

    @abstractmethod
    def encode(self, values: FloatArray, residual: FloatArray, out: ByteArray) -> None:
        """Write ``values`` (n,), n >= 1, plus ``residual`` (n,) to ``out`` (`bytes_for` (n),).

        ``residual`` becomes the encoding error; it has no elements if the format keeps none.
        """

    @abstractmethod
    def decode_add(self, encoded: ByteArray, total: FloatArray) -> None:
        """Add the values of ``encoded`` (`bytes_for` (n),) to ``total`` (n,), n >= 1."""


@final
@dataclass(frozen=True, slots=True)
class CenterFormats:
    """How contributions are `added` to a center that lies elsewhere, and how it is `read`.

    It is read as it is, not as a difference. So ``read`` keeps no residual.
    """

    added: WireFormat
    read: WireFormat


def whole_lines(bytes_: int) -> int:
    """Round up to a multiple of `ALIGNMENT`."""
    return -(-bytes_ // ALIGNMENT) * ALIGNMENT


def row_for(bytes_: int) -> ByteArray:
    """Return zeros for so many encoded bytes, a multiple of `ALIGNMENT`, at a cache line.

    The calling thread touches them first.
    """
    return aligned_zeros(bytes_ // _FLOAT_BYTES).view(np.uint8)
