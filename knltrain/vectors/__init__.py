"""Packed float32 vectors of parameters and gradients in the memory of the host."""

from __future__ import annotations

from vectorized_ops import layout
from vectorized_ops.layout import FloatArray

__all__ = ["FloatArray", "aligned_zeros"]


def aligned_zeros(size: int) -> FloatArray:
    """Zeros float32 (size,) that start on a 64-byte boundary, touched by the calling thread."""
    vector: FloatArray = layout.aligned_zeros((size,))
    vector.fill(0)  # The kernel gives memory from where it is first written.
    return vector
