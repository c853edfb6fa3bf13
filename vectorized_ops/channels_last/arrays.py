"""Activations in C order that begin at cache lines: channels run fastest, no image is padded."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from vectorized_ops.layout import AnyArray, aligned_zeros
from vectorized_ops.numba.arrays import use_threads
from vectorized_ops.reference.arrays import (
    activations_in,
    activations_size,
    flatten,
    load_images,
    unflatten,
)

__all__ = [
    "activations",
    "activations_in",
    "activations_size",
    "flatten",
    "load_images",
    "unflatten",
    "use_threads",
]


def activations(shape: tuple[int, ...], dtype: npt.DTypeLike = np.float32) -> AnyArray:
    """Return zeros of shape (N, H, W, C) or (N, I); their memory begins at a cache line."""
    return aligned_zeros((math.prod(shape),), dtype).reshape(shape)
