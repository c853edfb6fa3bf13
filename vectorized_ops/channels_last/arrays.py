"""Activations in C order that begin at cache lines: channels run fastest, no image is padded."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from vectorized_ops.channels_last.rows import rows
from vectorized_ops.channels_last.turning import turn
from vectorized_ops.layout import AnyArray, aligned_zeros
from vectorized_ops.numba.arrays import use_threads
from vectorized_ops.reference import arrays as definition
from vectorized_ops.reference.arrays import activations_in, activations_size, load_images

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


def flatten(images: AnyArray, out: AnyArray) -> None:
    """Write images (N, H, W, C) as vectors (N, C*H*W), channel by channel."""
    if out.flags.c_contiguous:
        turn(_of_pixels(images), _by_channel(out, images))
    else:
        definition.flatten(images, out)


def unflatten(
    vectors: AnyArray, out: AnyArray, add: bool = False, mask: AnyArray | None = None
) -> None:
    """Write vectors (N, C*H*W) back into images (N, H, W, C), or add them to what lies there.

    Where `mask` (N, H, W, C) is not positive, `out` becomes zero.
    """
    if add or mask is not None or not vectors.flags.c_contiguous:
        definition.unflatten(vectors, out, add, mask)
    else:
        turn(_by_channel(vectors, out), _of_pixels(out))


def _of_pixels(images: AnyArray) -> AnyArray:
    """Return a view of images as matrices (N, H*W, C)."""
    rows(images)  # refuses what reshaping would copy
    number, height, width, channels = images.shape
    return images.reshape(number, height * width, channels)


def _by_channel(vectors: AnyArray, images: AnyArray) -> AnyArray:
    """Return a view of vectors as matrices (N, C, H*W)."""
    number, height, width, channels = images.shape
    return vectors.reshape(number, channels, height * width)
