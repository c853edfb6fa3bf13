"""Arrays of bfloat16 to compare with."""

from __future__ import annotations

import numpy as np

from vectorized_ops.bfloat16 import rounded, widened


def paired(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Pairs of float32 numbers, rounded to bfloat16, in the bits of float32."""
    low, high = (rounded(each.astype(np.float32)).astype(np.uint32) for each in (first, second))
    return (low | high << np.uint32(16)).view(np.float32)


def nearest(values: np.ndarray) -> np.ndarray:
    """The values of bfloat16 that are nearest to those of float32."""
    return widened(rounded(values.astype(np.float32)))
