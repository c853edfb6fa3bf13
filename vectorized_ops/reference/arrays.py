"""Activations of the reference implementation: plain arrays in C order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vectorized_ops.layout import AnyArray


def activations(shape: tuple[int, ...], dtype: npt.DTypeLike = np.float32) -> AnyArray:
    """Return zeros of shape (N, H, W, C) or (N, I)."""
    return np.zeros(shape, dtype)


def load_images(images: AnyArray, out: AnyArray) -> None:
    """Copy images (n, H, W, C) into the first n of `out`, whose other images become zero."""
    np.copyto(out[: len(images)], images)
    out[len(images) :] = 0


def flatten(images: AnyArray) -> AnyArray:
    """Return images (N, H, W, C) as (N, C*H*W), channel by channel; a copy where needed."""
    vectors: AnyArray = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
    return vectors


def unflatten(vectors: AnyArray, out: AnyArray) -> None:
    """Write vectors (N, C*H*W) back into images (N, H, W, C)."""
    number, height, width, channels = out.shape
    np.copyto(out, vectors.reshape(number, channels, height, width).transpose(0, 2, 3, 1))


def use_threads(threads: int) -> None:
    """Take note of the number of threads: NumPy's loops run in one."""
