"""Encodes float32 vectors in fewer bytes for sending, in NumPy: bfloat16, blocks of int8 or 4 bits.

What a block loses is kept in a ``residual``, which is added to the next vector that is encoded
(error feedback). Seide, Fu, Droppo, Li, Yu, "1-bit stochastic gradient descent and its application
to data-parallel distributed training of speech DNNs", Interspeech 2014; Karimireddy, Rebjock,
Stich, Jaggi, "Error feedback fixes SignSGD and other gradient compression schemes", ICML 2019.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vectorized_ops.bfloat16 import rounded, widened
from vectorized_ops.layout import FloatArray

BLOCK = 256
"""Values that share a scale in int8 and float4."""

LEVELS = 127
"""The largest code in int8: codes are symmetric around 0."""

EXPONENTS = 7
"""The powers of two in float4, the largest of which is 1; code 0 is 0, and the next bit a sign."""

SIGN = 8
"""The bit of a negative code in float4."""

THRESHOLDS = np.array([1 / 128, *(0.75 * 2.0**-each for each in range(5, -1, -1))], np.float32)
"""Above which share of the largest magnitude a value gets the next code: in the middle of two."""

LEAST_SCALE = np.finfo(np.float32).tiny
"""A smaller scale has no inverse in float32: such a block is sent as 0, and kept for later."""


def encode_bfloat16(values: FloatArray, codes: npt.NDArray[np.uint16]) -> None:
    """Write ``values`` (n,) as bfloat16, rounded to nearest even, to ``codes`` (n,).

    A code is the upper half of a float32's bits. NaN and infinity stay what they are, and what is
    beyond the largest bfloat16 becomes infinite.
    """
    codes[:] = rounded(values)


def add_bfloat16(codes: npt.NDArray[np.uint16], total: FloatArray) -> None:
    """Add the values that ``codes`` (n,) stand for to ``total`` (n,)."""
    total += widened(codes)


def encode_int8(
    values: FloatArray, residual: FloatArray, scales: FloatArray, codes: npt.NDArray[np.int8]
) -> None:
    """Write ``values`` + ``residual`` (n,) as ``codes`` (n,) times the ``scales`` of their blocks.

    Of each `BLOCK` of values v, the last one may be shorter, the scale is max |v| / 127 and a code
    the nearest integer to v / scale, ties to even; ``residual`` becomes what that leaves. A block
    with a NaN or an infinity gets the scale NaN, so that all of it is decoded as NaN, and leaves no
    residual. ``scales`` has shape (⌈n / BLOCK⌉,). Alistarh et al., "QSGD", NIPS 2017, rounds at
    random instead.
    """
    for number, begin in enumerate(range(0, values.size, BLOCK)):
        block = slice(begin, begin + BLOCK)
        given = values[block] + residual[block]
        scale = np.max(np.abs(given)) / np.float32(LEVELS)
        codes[block], residual[block] = 0, 0
        if not np.isfinite(given).all():
            scales[number] = np.nan
        elif scale < LEAST_SCALE:
            scales[number], residual[block] = 0, given
        else:
            nearest = np.rint(given * (np.float32(1) / scale))
            scales[number], codes[block] = scale, nearest
            residual[block] = given - nearest * scale


def add_int8(scales: FloatArray, codes: npt.NDArray[np.int8], total: FloatArray) -> None:
    """Add what ``codes`` (n,) times the ``scales`` of their blocks come to to ``total`` (n,)."""
    total += codes * np.repeat(scales, BLOCK)[: codes.size]


def encode_float4(
    values: FloatArray, residual: FloatArray, scales: FloatArray, codes: npt.NDArray[np.uint8]
) -> None:
    """Write ``values`` + ``residual`` (n,) as 4 bits each times the ``scales`` of their blocks.

    A sign and 3 bits of an exponent (E3M0), as Streaming DiLoCo sends its fragments (Douillard et
    al., arXiv 2501.18512). Of each `BLOCK` of values v, the last one may be shorter, the scale is
    max |v|, and a value becomes the nearest of 0, 2⁻⁶, ..., 1 times that, the smaller one of two;
    ``residual`` becomes what that leaves. A byte has the codes of v_i and v_(i + h), where h is
    half the block. A block with a NaN or an infinity is decoded as NaN, and leaves no residual.
    ``scales`` has shape (⌈n / BLOCK⌉,), ``codes`` (⌈n / 2⌉,).
    """
    for number, begin in enumerate(range(0, values.size, BLOCK)):
        block = slice(begin, begin + BLOCK)
        given = values[block] + residual[block]
        half = -(-given.size // 2)
        out = codes[begin // 2 : begin // 2 + half]
        scale = np.max(np.abs(given))
        out[:], residual[block] = 0, 0
        if not np.isfinite(scale):
            scales[number] = np.nan
        elif scale < LEAST_SCALE:
            scales[number], residual[block] = 0, given
        else:
            limits = THRESHOLDS * scale
            found = (np.abs(given) > limits[:, None]).sum(axis=0).astype(np.uint8)
            found |= np.where(given < 0, np.uint8(SIGN), np.uint8(0))
            scales[number], residual[block] = scale, given - _decoded(found) * scale
            out |= found[:half]
            out[: given.size - half] |= found[half:] << 4


def add_float4(scales: FloatArray, codes: npt.NDArray[np.uint8], total: FloatArray) -> None:
    """Add what ``codes`` (⌈n / 2⌉,) times the ``scales`` of their blocks are to ``total`` (n,)."""
    for number, begin in enumerate(range(0, total.size, BLOCK)):
        mine = total[begin : begin + BLOCK]
        half = -(-mine.size // 2)
        given = codes[begin // 2 : begin // 2 + half]
        found = np.concatenate([given & 15, given[: mine.size - half] >> 4])
        mine += _decoded(found) * scales[number]


def _decoded(codes: npt.NDArray[np.uint8]) -> FloatArray:
    """Return the values of the codes (n,), without their scale."""
    level = codes & (SIGN - 1)
    magnitude = np.where(level, np.ldexp(np.float32(1), level.astype(np.int32) - EXPONENTS), 0)
    return np.where(codes & SIGN, -magnitude, magnitude).astype(np.float32)
