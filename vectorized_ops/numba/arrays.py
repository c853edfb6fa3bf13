"""Activations of the Numba implementation: images run fastest in memory, in whole vectors."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import (
    STORED,
    AnyArray,
    images_last_in,
    images_last_size,
    padded_images,
    pixels,
    zeros_images_last,
)
from vectorized_ops.numba.compiling.compiler import SETTINGS, kernel, parallel_kernel
from vectorized_ops.numba.emit.bfloat16 import element, store_element
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.emit.threads import part
from vectorized_ops.numba.kernels.convolution.row_tiles import transpose_tile

TILES_AT_ONCE = 16
"""Of neighbouring values, loaded of LANES images before the next images: 1 KiB of each."""


def activations(shape: tuple[int, ...], dtype: npt.DTypeLike = np.float32) -> AnyArray:
    """Return zeros of logical shape (N', H, W, C) or (N', I), N' being N rounded up to vectors."""
    return zeros_images_last((padded_images(shape[0]), *shape[1:]), dtype)


def activations_size(shape: tuple[int, ...]) -> int:
    """Return how many elements `activations_in` needs for a shape (N, H, W, C) or (N, I)."""
    return images_last_size(shape)


def activations_in(memory: AnyArray, shape: tuple[int, ...]) -> AnyArray:
    """Return an array as from `activations` on flat `memory`, whose values stay as they are."""
    return images_last_in(memory, shape)


def load_images(images: AnyArray, out: AnyArray) -> None:
    """Copy float32 images (n, H, W, C) in C order into the first n of `out` from `activations`.

    The other images of `out` become zero. Raises OperationError if `out` cannot hold the images.
    """
    fits = len(images) <= len(out) and images.shape[1:] == out.shape[1:]
    if not fits or images.dtype != np.float32 or out.dtype not in (np.float32, STORED):
        raise OperationError(
            f"images of shape {images.shape} and type {images.dtype} were to be loaded into an "
            f"array of shape {out.shape} and type {out.dtype}: expected {out.shape[1:]} per image "
            f"and at most {len(out)} images, all float32, or uint16 to write them as bfloat16"
        )
    size = math.prod(images.shape[1:])
    flat, distance = pixels(out)
    _load(
        images.reshape(-1), len(images), size, flat, len(out), distance, images.shape[3],
        numba.get_num_threads(),
    )  # fmt: skip


def flatten(images: AnyArray, out: AnyArray) -> None:
    """Write images (N, H, W, C) as vectors (N, C*H*W), channel by channel."""
    _check_same_size(images, out)
    source, distance = pixels(images)
    number, height, width, channels = images.shape
    _flatten(source, distance, height * width, channels, number, pixels(out)[0])


def unflatten(
    vectors: AnyArray, out: AnyArray, add: bool = False, mask: AnyArray | None = None
) -> None:
    """Write vectors (N, C*H*W) back into images (N, H, W, C), or add them to what lies there.

    Where `mask` (N, H, W, C) is not positive, `out` becomes zero.
    """
    _check_same_size(out, vectors)
    target, distance = pixels(out)
    masking, mask_distance = (target, 0) if mask is None else pixels(mask)
    number, height, width, channels = out.shape
    _unflatten(
        pixels(vectors)[0], target, distance, height * width, channels, number, add,
        masking, mask_distance, mask is not None,
    )  # fmt: skip


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


def _check_same_size(images: AnyArray, vectors: AnyArray) -> None:
    number, height, width, channels = images.shape
    if vectors.shape != (number, channels * height * width):
        raise OperationError(
            f"images of shape {images.shape} do not fit vectors of shape {vectors.shape}: expected "
            f"vectors of shape {(number, channels * height * width)}"
        )


@parallel_kernel
def _load(
    images: Any,
    given: int,
    size: int,
    out: Any,
    number: int,
    distance: int,
    channels: int,
    threads: int,
) -> None:
    """Transpose images (given, size), LANES images and LANES values at a time.

    Some lines of LANES images are read before the same lines of the next ones: no hardware
    prefetcher follows all images of a batch at once.
    """
    tiles = (size + LANES - 1) // LANES
    for thread in numba.prange(threads):
        first, last = part(tiles, thread, threads), part(tiles, thread + 1, threads)
        for chunk in range(first, last, TILES_AT_ONCE):
            for lane in range(0, number, LANES):
                for tile in range(chunk, min(chunk + TILES_AT_ONCE, last)):
                    begin = max(0, min(tile * LANES, size - LANES))
                    whole = lane + LANES <= given and begin + LANES <= size
                    if whole and distance == channels * number:
                        transpose_tile(
                            out, begin * number + lane, number, images, lane * size + begin, size
                        )
                    else:
                        _load_part(
                            images, given, size, begin, lane, out, number, distance, channels
                        )


@kernel
def _load_part(
    images: Any,
    given: int,
    size: int,
    begin: int,
    lane: int,
    out: Any,
    number: int,
    distance: int,
    channels: int,
) -> None:
    for i in range(begin, min(begin + LANES, size)):
        target = i // channels * distance + i % channels * number
        for image in range(lane, lane + LANES):
            value = images[image * size + i] if image < given else np.float32(0.0)
            store_element(out, target + image, value)


@parallel_kernel
def _flatten(images: Any, distance: int, area: int, channels: int, number: int, out: Any) -> None:
    for c in numba.prange(channels):
        for pixel in range(area):
            begin, target = pixel * distance + c * number, (c * area + pixel) * number
            for image in range(number):
                store_element(out, target + image, element(images, begin + image))


@parallel_kernel
def _unflatten(
    vectors: Any,
    out: Any,
    distance: int,
    area: int,
    channels: int,
    number: int,
    add: bool,
    mask: Any,
    mask_distance: int,
    masked: bool,
) -> None:
    for c in numba.prange(channels):
        for pixel in range(area):
            source = vectors[(c * area + pixel) * number :][:number]
            target = out[pixel * distance + c * number :][:number]
            passed = mask[pixel * mask_distance + c * number :][:number]
            for image in range(number):
                value = element(source, image)
                if add:
                    value += element(target, image)
                cut = masked and element(passed, image) <= 0
                store_element(target, image, np.float32(0.0) if cut else value)
