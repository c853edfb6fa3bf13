"""Activations of the Numba implementation: images run fastest in memory, in whole vectors."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import (
    IMAGE_LANES,
    AnyArray,
    images_last,
    padded_images,
    zeros_images_last,
)
from vectorized_ops.numba._threads import part
from vectorized_ops.numba.compiler import SETTINGS, parallel_kernel


def activations(shape: tuple[int, ...], dtype: npt.DTypeLike = np.float32) -> AnyArray:
    """Return zeros of logical shape (N', H, W, C) or (N', I), N' being N rounded up to vectors."""
    return zeros_images_last((padded_images(shape[0]), *shape[1:]), dtype)


def load_images(images: AnyArray, out: AnyArray) -> None:
    """Copy images (n, H, W, C) in C order into the first n of `out` from `activations`.

    The other images of `out` become zero. Raises OperationError if `out` cannot hold the images.
    """
    if len(images) > len(out) or images.shape[1:] != out.shape[1:]:
        raise OperationError(
            f"images of shape {images.shape} were to be loaded into an array of shape {out.shape}: "
            f"expected {out.shape[1:]} per image and at most {len(out)} images"
        )
    threads = numba.get_num_threads()
    _transpose(images.reshape(len(images), -1), images_last(out), images.shape[3], threads)


def flatten(images: AnyArray) -> AnyArray:
    """Return images (N, H, W, C) as (N, C*H*W), channel by channel, without a copy."""
    memory = images_last(images)
    vectors: AnyArray = memory.reshape(-1, memory.shape[3]).T
    return vectors


def unflatten(vectors: AnyArray, out: AnyArray) -> None:
    """Write vectors (N, C*H*W) back into images (N, H, W, C)."""
    np.copyto(images_last(out), images_last(vectors).reshape(images_last(out).shape))


def use_threads(threads: int) -> None:
    """Let kernels that the calling thread starts run with so many threads.

    Raises OperationError if there are more than Numba was started with.
    """
    if threads > SETTINGS.NUMBA_NUM_THREADS:
        raise OperationError(
            f"{threads} threads were asked for, but Numba was started with "
            f"{SETTINGS.NUMBA_NUM_THREADS}: set NUMBA_NUM_THREADS before the start or ask for fewer"
        )
    numba.set_num_threads(threads)


@parallel_kernel
def _transpose(images: Any, out: Any, channels: int, threads: int) -> None:
    number, vectors, width = images.shape[0], out.shape[3] // IMAGE_LANES, out.shape[2]
    for thread in numba.prange(threads):
        first = part(vectors, thread, threads) * IMAGE_LANES
        last = part(vectors, thread + 1, threads) * IMAGE_LANES
        for pixel in range(images.shape[1] // channels):
            for c in range(channels):
                row = out[c, pixel // width, pixel % width]
                for i in range(first, min(last, number)):
                    row[i] = images[i, pixel * channels + c]
                for i in range(max(first, number), last):
                    row[i] = np.float32(0.0)
