"""Encodes float32 vectors in fewer bytes for sending, in one pass, compiled by Numba.

Results are those of ``vectorized_ops.reference.wire``, to the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from vectorized_ops.layout import FloatArray
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.raw_arrays import contiguous, stack_vector
from vectorized_ops.reference.wire import BLOCK, LEAST_SCALE, LEVELS

_INFINITE = np.int32(0x7F800000)
_MAGNITUDE = np.int32(0x7FFFFFFF)
_ROUNDING = np.float32(1.5 * 2**23)
"""Added to a value below 2**22 and taken from it, this rounds to an integer, ties to even."""


@kernel
def encode_bfloat16(values: FloatArray, codes: npt.NDArray[np.uint16]) -> None:
    """As ``vectorized_ops.reference.wire.encode_bfloat16``; 6 bytes of memory traffic per value.

    Raises ValueError for shapes that do not fit.
    """
    if values.shape[0] != codes.shape[0]:
        raise ValueError("values and codes must have the same length")
    given = contiguous(values).view(np.uint32)
    for i in range(given.shape[0]):
        bits = given[i]
        upper = np.uint32(bits >> np.uint32(16))
        rounded = np.uint32(bits + np.uint32(0x7FFF) + (upper & np.uint32(1))) >> np.uint32(16)
        is_nan = np.uint32(bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
        codes[i] = np.uint16(upper | np.uint32(0x40)) if is_nan else np.uint16(rounded)


@kernel
def add_bfloat16(codes: npt.NDArray[np.uint16], total: FloatArray) -> None:
    """As ``vectorized_ops.reference.wire.add_bfloat16``; 10 bytes of memory traffic per value.

    Raises ValueError for shapes that do not fit.
    """
    if total.shape[0] != codes.shape[0]:
        raise ValueError("codes and total must have the same length")
    sums, wide = contiguous(total), stack_vector(BLOCK, np.uint32)
    for begin in range(0, sums.shape[0], BLOCK):
        mine, given = sums[begin : begin + BLOCK], codes[begin : begin + BLOCK]
        for i in range(mine.shape[0]):
            wide[i] = np.uint32(given[i]) << np.uint32(16)
        widened = wide.view(np.float32)
        for i in range(mine.shape[0]):
            mine[i] += widened[i]


@kernel
def encode_int8(
    values: FloatArray, residual: FloatArray, scales: FloatArray, codes: npt.NDArray[np.int8]
) -> None:
    """As ``vectorized_ops.reference.wire.encode_int8``; 13 bytes of memory traffic per value.

    Raises ValueError for shapes that do not fit.
    """
    size = values.shape[0]
    if not size == residual.shape[0] == codes.shape[0]:
        raise ValueError("values, residual and codes must have the same length")
    if scales.shape[0] != (size + BLOCK - 1) // BLOCK:
        raise ValueError("scales must have one element for each block of values")
    mine, rest = contiguous(values), contiguous(residual)
    for number in range(scales.shape[0]):
        begin = number * BLOCK
        left, out = rest[begin : begin + BLOCK], codes[begin : begin + BLOCK]
        _add(left, mine[begin : begin + BLOCK])
        peak = _peak(left.view(np.int32))
        scales[number] = _encode_block(left, out, peak)


@kernel
def _add(total: FloatArray, values: FloatArray) -> None:
    for i in range(total.shape[0]):
        total[i] = values[i] + total[i]


@kernel
def _peak(bits: npt.NDArray[np.int32]) -> Any:
    """Return the largest magnitude, as bits: of integers the maximum is taken of many at once."""
    peak = np.int32(0)
    for i in range(bits.shape[0]):
        peak = max(peak, np.int32(bits[i] & _MAGNITUDE))
    return peak


@kernel
def _encode_block(left: FloatArray, codes: npt.NDArray[np.int8], peak: Any) -> Any:
    """Write the codes of one block, whose values become what is left; return the scale."""
    highest = stack_vector(1, np.int32)
    highest[0] = peak
    scale = highest.view(np.float32)[0] / np.float32(LEVELS)
    if peak >= _INFINITE:
        left[:] = 0
        codes[:] = 0
        return np.float32(np.nan)
    if scale < np.float32(LEAST_SCALE):
        codes[:] = 0
        return np.float32(0)
    inverse = np.float32(1) / scale
    for i in range(left.shape[0]):
        nearest = (left[i] * inverse + _ROUNDING) - _ROUNDING
        codes[i] = np.int8(nearest)
        left[i] -= nearest * scale
    return scale


@kernel
def add_int8(scales: FloatArray, codes: npt.NDArray[np.int8], total: FloatArray) -> None:
    """As ``vectorized_ops.reference.wire.add_int8``; 9 bytes of memory traffic per value.

    Raises ValueError for shapes that do not fit.
    """
    if total.shape[0] != codes.shape[0]:
        raise ValueError("codes and total must have the same length")
    if scales.shape[0] != (codes.shape[0] + BLOCK - 1) // BLOCK:
        raise ValueError("scales must have one element for each block of values")
    sums = contiguous(total)
    for number in range(scales.shape[0]):
        begin, scale = number * BLOCK, scales[number]
        mine, given = sums[begin : begin + BLOCK], codes[begin : begin + BLOCK]
        for i in range(mine.shape[0]):
            mine[i] += np.float32(given[i]) * scale
