# ruff: noqa: ARG002 (a format is given a residual, and may need none)
"""The wire formats: bfloat16, blocks of int8 or 4 bits, and top-k (the largest values)."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Protocol, final

import numpy as np
import numpy.typing as npt

from knltrain.communication.internode.collective import ByteArray
from knltrain.communication.internode.wire.wire_format import WireFormat, whole_lines
from knltrain.errors import ConfigError
from knltrain.vectors import FloatArray
from vectorized_ops.reference.wire import BLOCK

_INDEX_BYTES = _FLOAT_BYTES = 4
_HALF_BYTES = 2


class RoundingKernels(Protocol):
    """Fewer bits for each value: ``vectorized_ops.<implementation>.wire``."""

    def encode_bfloat16(self, values: FloatArray, codes: npt.NDArray[np.uint16], /) -> None:
        """Write values as bfloat16."""

    def add_bfloat16(self, codes: npt.NDArray[np.uint16], total: FloatArray, /) -> None:
        """Decode bfloat16 values and add them."""

    def encode_int8(
        self,
        values: FloatArray,
        residual: FloatArray,
        scales: FloatArray,
        codes: npt.NDArray[np.int8],
        /,
    ) -> None:
        """Write values as blocks of int8."""

    def add_int8(
        self, scales: FloatArray, codes: npt.NDArray[np.int8], total: FloatArray, /
    ) -> None:
        """Decode blocks of int8 and add them."""

    def encode_float4(
        self,
        values: FloatArray,
        residual: FloatArray,
        scales: FloatArray,
        codes: npt.NDArray[np.uint8],
        /,
    ) -> None:
        """Write values as blocks of powers of two, 4 bits each."""

    def add_float4(
        self, scales: FloatArray, codes: npt.NDArray[np.uint8], total: FloatArray, /
    ) -> None:
        """Decode blocks of powers of two and add them."""


class ChoosingKernels(Protocol):
    """The largest values instead of all: ``vectorized_ops.<implementation>.largest``."""

    def candidates_for(self, count: int, /) -> int:
        """Return the length of the scratch memory to choose ``count`` values."""

    def encode_largest(
        self,
        values: FloatArray,
        residual: FloatArray,
        places: npt.NDArray[np.int32],
        chosen: FloatArray,
        candidates: npt.NDArray[np.int32],
        /,
    ) -> None:
        """Choose the largest values."""

    def add_largest(
        self, places: npt.NDArray[np.int32], chosen: FloatArray, total: FloatArray, /
    ) -> None:
        """Decode the chosen values and add them."""


@dataclass(frozen=True, slots=True)
class WireKernels:
    """The arithmetic of all formats."""

    rounding: RoundingKernels
    choosing: ChoosingKernels


@final
class Bfloat16(WireFormat):
    """2 bytes for each value: its upper half, rounded to nearest even; no residual is kept.

    Values beyond the largest bfloat16, 3.39e38, become infinite.
    """

    name = "bfloat16"
    keeps_residual = False

    def __init__(self, kernels: RoundingKernels) -> None:
        self._kernels = kernels

    def bytes_for(self, count: int) -> int:
        """Return 2 for each."""
        return whole_lines(_HALF_BYTES * count)

    def encode(self, values: FloatArray, residual: FloatArray, out: ByteArray) -> None:
        """Write ``values`` (n,)."""
        self._kernels.encode_bfloat16(values, out[: _HALF_BYTES * values.size].view(np.uint16))

    def decode_add(self, encoded: ByteArray, total: FloatArray) -> None:
        """Add them to ``total`` (n,)."""
        self._kernels.add_bfloat16(encoded[: _HALF_BYTES * total.size].view(np.uint16), total)


class _Blocks(WireFormat):
    """Codes of all values, and a scale for each block of 256; the residual is kept."""

    keeps_residual = True

    def __init__(self, kernels: RoundingKernels) -> None:
        self._kernels = kernels

    @staticmethod
    @abstractmethod
    def _codes_for(count: int) -> int:
        """Return the bytes of the codes of ``count`` values."""

    def bytes_for(self, count: int) -> int:
        """Return those of scales and codes."""
        return whole_lines(_scale_bytes(count) + self._codes_for(count))

    def _parts(self, data: ByteArray, count: int) -> tuple[FloatArray, ByteArray]:
        """The scales and the codes of ``count`` values."""
        begin = _scale_bytes(count)
        return data[:begin].view(np.float32), data[begin : begin + self._codes_for(count)]


@final
class Int8(_Blocks):
    """A byte for each value, and a scale for each block of 256; the residual is kept.

    The error of a value is at most half a step, 1/254 of the largest magnitude in its block. A
    block with a NaN or an infinity is decoded as NaN. Seide et al., Interspeech 2014; Alistarh et
    al., NIPS 2017; Karimireddy et al., ICML 2019: `vectorized_ops.reference.wire`.
    """

    name = "int8"

    @staticmethod
    def _codes_for(count: int) -> int:
        return count

    def encode(self, values: FloatArray, residual: FloatArray, out: ByteArray) -> None:
        """Write ``values`` + ``residual`` (n,)."""
        scales, codes = self._parts(out, values.size)
        self._kernels.encode_int8(values, residual, scales, codes.view(np.int8))

    def decode_add(self, encoded: ByteArray, total: FloatArray) -> None:
        """Add what was written to ``total`` (n,)."""
        scales, codes = self._parts(encoded, total.size)
        self._kernels.add_int8(scales, codes.view(np.int8), total)


@final
class Float4(_Blocks):
    """4 bits for each value, and a scale for each block of 256; the residual is kept.

    A sign and one of seven powers of two, or 0 (E3M0). The error of a value is at most a third of
    it, or 1/128 of the largest magnitude in its block. A block with a NaN or an infinity is decoded
    as NaN. Douillard et al., arXiv 2501.18512: `vectorized_ops.reference.wire`.
    """

    name = "float4"

    @staticmethod
    def _codes_for(count: int) -> int:
        return -(-count // 2)

    def encode(self, values: FloatArray, residual: FloatArray, out: ByteArray) -> None:
        """Write ``values`` + ``residual`` (n,)."""
        self._kernels.encode_float4(values, residual, *self._parts(out, values.size))

    def decode_add(self, encoded: ByteArray, total: FloatArray) -> None:
        """Add what was written to ``total`` (n,)."""
        self._kernels.add_float4(*self._parts(encoded, total.size), total)


@final
class TopK(WireFormat):
    """The ``share`` of largest magnitudes, 8 bytes for each; the others are kept as the residual.

    At least one value is sent. Of equal values the first is sent. NaN counts as larger than
    infinity. ``most`` is the largest number of values that are encoded at a time. Aji, Heafield,
    EMNLP 2017; Stich et al., NeurIPS 2018: `vectorized_ops.reference.top_k`. Raises ConfigError
    unless 0 < share <= 0.5: a larger share takes more bytes than float32.
    """

    name = "top_k"
    keeps_residual = True

    def __init__(self, kernels: ChoosingKernels, share: float, most: int) -> None:
        if not 0 < share <= 0.5:
            raise ConfigError(
                f"exchange.wire_top_share = {share}: expected more than 0 and at most 0.5, as a "
                "value that is sent takes 8 bytes instead of 4"
            )
        self._kernels, self._share = kernels, share
        self._candidates = np.zeros(kernels.candidates_for(self._count(most)), np.int32)

    def bytes_for(self, count: int) -> int:
        """Return 8 for each that is sent."""
        return whole_lines((_INDEX_BYTES + _FLOAT_BYTES) * self._count(count))

    def encode(self, values: FloatArray, residual: FloatArray, out: ByteArray) -> None:
        """Write the largest of ``values`` + ``residual`` (n,)."""
        places, chosen = _places_and_values(out, self._count(values.size))
        self._kernels.encode_largest(values, residual, places, chosen, self._candidates)

    def decode_add(self, encoded: ByteArray, total: FloatArray) -> None:
        """Add what was sent to ``total`` (n,)."""
        self._kernels.add_largest(*_places_and_values(encoded, self._count(total.size)), total)

    def _count(self, count: int) -> int:
        return min(count, max(1, math.ceil(self._share * count)))


def _scale_bytes(count: int) -> int:
    return _FLOAT_BYTES * -(-count // BLOCK)


def _places_and_values(data: ByteArray, count: int) -> tuple[npt.NDArray[np.int32], FloatArray]:
    begin = _INDEX_BYTES * count
    values = data[begin : begin + _FLOAT_BYTES * count].view(np.float32)
    return data[:begin].view(np.int32), values
