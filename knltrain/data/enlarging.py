"""Enlarges images, so that small data sets can be used with networks for large images."""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from knltrain.vectors import FloatArray


def enlarged(images: npt.NDArray[np.generic], side: int) -> FloatArray:
    """Images (N,H,W,C) resized bilinearly to float32 (N,side,side,C).

    Pixel centres are at half-integer positions; beyond the outermost ones the image is constant.
    Computed in float64, one image at a time.
    """
    count, height, width, channels = images.shape
    down, right = _interpolation(height, side), _interpolation(width, side)
    out = np.empty((count, side, side, channels), np.float32)
    for image, large in zip(images, out, strict=True):
        rows = down @ image.astype(np.float64).reshape(height, width * channels)
        large[:] = np.matmul(right, rows.reshape(side, width, channels))
    return out


@functools.cache
def _interpolation(size: int, side: int) -> npt.NDArray[np.float64]:
    """Matrix (side, size) that interpolates linearly between `size` pixels."""
    position = np.clip((np.arange(side) + 0.5) * size / side - 0.5, 0, size - 1)
    distance = np.abs(position[:, None] - np.arange(size))
    return np.maximum(0.0, 1.0 - distance)
