"""bfloat16 in NumPy, which lacks it: arrays of uint16, the upper halves of float32's bits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vectorized_ops.layout import STORED, AnyArray, FloatArray

_EXPONENT = np.uint16(0x7F80)


def rounded(values: FloatArray) -> npt.NDArray[np.uint16]:
    """Float32 values as bfloat16, rounded to nearest even.

    NaN and infinity stay what they are; what is beyond the largest bfloat16 becomes infinite.
    """
    bits = values.view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    nearest = (bits + np.uint32(0x7FFF) + odd) >> np.uint32(16)
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)
    codes: npt.NDArray[np.uint16] = np.where(np.isnan(values), quiet, nearest).astype(np.uint16)
    return codes


def widened(array: AnyArray) -> FloatArray:
    """The values of an array of bfloat16 as float32; those of another one as they are."""
    if array.dtype != STORED:
        return array
    bits: npt.NDArray[np.uint32] = array.astype(np.uint32) << np.uint32(16)
    return bits.view(np.float32)


def copy_values(values: AnyArray, out: AnyArray) -> None:
    """Write values of float32 or bfloat16 to an array of either."""
    if values.dtype == out.dtype:
        np.copyto(out, values)
    else:
        out[...] = widened(values) if values.dtype == STORED else rounded(values)


def are_finite(array: AnyArray) -> bool:
    """Tell whether all values of float32 or bfloat16 are finite."""
    if array.dtype != STORED:
        return bool(np.isfinite(array).all())
    return bool(((array & _EXPONENT) != _EXPONENT).all())
