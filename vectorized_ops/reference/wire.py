"""Encodes float32 vectors in fewer bytes for sending, in NumPy: bfloat16, blocks of int8.

What int8 loses is kept in a ``residual``, which is added to the next vector that is encoded (error
feedback). Seide, Fu, Droppo, Li, Yu, "1-bit stochastic gradient descent and its application to
data-parallel distributed training of speech DNNs", Interspeech 2014; Karimireddy, Rebjock, Stich,
Jaggi, "Error feedback fixes SignSGD and other gradient compression schemes", ICML 2019.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vectorized_ops.bfloat16 import rounded, widened
from vectorized_ops.layout import FloatArray

BLOCK = 256
"""Values that share a scale in int8."""

LEVELS = 127
"""The largest code in int8: codes are symmetric around 0."""

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
