"""Activations of the reference implementation: plain arrays in C order."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from vectorized_ops.layout import AnyArray
from vectorized_ops.reference.gradient import write_gradient


def activations(shape: tuple[int, ...], dtype: npt.DTypeLike = np.float32) -> AnyArray:
    """Return zeros of shape (N, H, W, C) or (N, I)."""
    return np.zeros(shape, dtype)


def activations_size(shape: tuple[int, ...]) -> int:
    """Return how many elements `activations_in` needs for a shape (N, H, W, C) or (N, I)."""
    return math.prod(shape)


def activations_in(memory: AnyArray, shape: tuple[int, ...]) -> AnyArray:
    """Return an array as from `activations` on flat `memory`, whose values stay as they are."""
    return memory[: math.prod(shape)].reshape(shape)


def load_images(images: AnyArray, out: AnyArray) -> None:
    """Copy images (n, H, W, C) into the first n of `out`, whose other images become zero."""
    np.copyto(out[: len(images)], images)
    out[len(images) :] = 0


def flatten(images: AnyArray, out: AnyArray) -> None:
    """Write images (N, H, W, C) as vectors (N, C*H*W), channel by channel as Caffe and PyTorch."""
    np.copyto(out, images.transpose(0, 3, 1, 2).reshape(out.shape))


def unflatten(
    vectors: AnyArray, out: AnyArray, add: bool = False, mask: AnyArray | None = None
) -> None:
    """Write vectors (N, C*H*W), a gradient, back into images (N, H, W, C).

    `add` and `mask` as in `vectorized_ops.reference.gradient.write_gradient`.
    """
    number, height, width, channels = out.shape
    images = vectors.reshape(number, channels, height, width).transpose(0, 2, 3, 1)
    write_gradient(images, out, add, mask)


def use_threads(threads: int) -> None:
    """Take note of the number of threads: NumPy's loops run in one."""
