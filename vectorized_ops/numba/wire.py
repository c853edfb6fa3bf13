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
from vectorized_ops.reference.wire import BLOCK, EXPONENTS, LEAST_SCALE, LEVELS, SIGN, THRESHOLDS

_INFINITE = np.int32(0x7F800000)
_MAGNITUDE = np.int32(0x7FFFFFFF)
_ROUNDING = np.float32(1.5 * 2**23)
"""Added to a value below 2**22 and taken from it, this rounds to an integer, ties to even."""

_T0, _T1, _T2, _T3, _T4, _T5, _T6 = map(np.float32, THRESHOLDS)
_LOWEST = np.int32(127 - EXPONENTS)
"""The bits of a power of two, less its code in float4."""


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


@kernel
def encode_float4(
    values: FloatArray, residual: FloatArray, scales: FloatArray, codes: npt.NDArray[np.uint8]
) -> None:
    """As ``vectorized_ops.reference.wire.encode_float4``; 12.5 bytes of memory traffic per value.

    Raises ValueError for shapes that do not fit.
    """
    size = values.shape[0]
    if size != residual.shape[0]:
        raise ValueError("values and residual must have the same length")
    if codes.shape[0] != (size + 1) // 2:
        raise ValueError("codes must have one element for each two values")
    if scales.shape[0] != (size + BLOCK - 1) // BLOCK:
        raise ValueError("scales must have one element for each block of values")
    mine, rest, found = contiguous(values), contiguous(residual), stack_vector(BLOCK, np.int32)
    for number in range(scales.shape[0]):
        begin = number * BLOCK
        left = rest[begin : begin + BLOCK]
        half = (left.shape[0] + 1) // 2
        out = codes[begin // 2 : begin // 2 + half]
        _add(left, mine[begin : begin + BLOCK])
        scales[number] = _float4_block(left, found, _peak(left.view(np.int32)))
        if left.shape[0] % 2:
            found[left.shape[0]] = 0
        for i in range(half):
            out[i] = np.uint8(found[i] | (found[half + i] << np.int32(4)))


@kernel
def _float4_block(left: FloatArray, found: npt.NDArray[np.int32], peak: Any) -> Any:
    """Write the codes of one block, whose values become what is left; return the scale."""
    highest, wide = stack_vector(1, np.int32), stack_vector(BLOCK, np.int32)
    highest[0] = peak
    scale = highest.view(np.float32)[0]
    if peak >= _INFINITE:
        left[:] = 0
        found[:] = 0
        return np.float32(np.nan)
    if scale < np.float32(LEAST_SCALE):
        found[:] = 0
        return np.float32(0)
    t0, t1, t2, t3 = _T0 * scale, _T1 * scale, _T2 * scale, _T3 * scale
    t4, t5, t6 = _T4 * scale, _T5 * scale, _T6 * scale
    for i in range(left.shape[0]):
        size = abs(left[i])
        low = np.int32(size > t0) + np.int32(size > t1) + np.int32(size > t2) + np.int32(size > t3)
        level = np.int32(low + np.int32(size > t4) + np.int32(size > t5) + np.int32(size > t6))
        sign = np.int32(SIGN) if left[i] < 0 else np.int32(0)
        found[i] = level | sign
        wide[i] = _bits_of(level, sign)
    decoded = wide.view(np.float32)
    for i in range(left.shape[0]):
        left[i] -= decoded[i] * scale
    return scale


@kernel
def _bits_of(level: Any, sign: Any) -> Any:
    """Return the bits of a float32: of 0, or of a power of two."""
    magnitude = np.int32((level + _LOWEST) << np.int32(23)) if level else np.int32(0)
    return np.int32(magnitude | (sign << np.int32(28)))


@kernel
def add_float4(scales: FloatArray, codes: npt.NDArray[np.uint8], total: FloatArray) -> None:
    """As ``vectorized_ops.reference.wire.add_float4``; 8.5 bytes of memory traffic per value.

    Raises ValueError for shapes that do not fit.
    """
    if codes.shape[0] != (total.shape[0] + 1) // 2:
        raise ValueError("codes must have one element for each two values")
    if scales.shape[0] != (total.shape[0] + BLOCK - 1) // BLOCK:
        raise ValueError("scales must have one element for each block of values")
    sums, wide = contiguous(total), stack_vector(BLOCK, np.int32)
    for number in range(scales.shape[0]):
        begin, scale = number * BLOCK, scales[number]
        mine = sums[begin : begin + BLOCK]
        half = (mine.shape[0] + 1) // 2
        given = codes[begin // 2 : begin // 2 + half]
        for i in range(half):
            low, high = np.int32(given[i]), np.int32(given[i] >> np.uint8(4))
            wide[i] = _bits_of(low & np.int32(7), low & np.int32(8))
            wide[half + i] = _bits_of(high & np.int32(7), high & np.int32(8))
        decoded = wide.view(np.float32)
        for i in range(mine.shape[0]):
            mine[i] += decoded[i] * scale
