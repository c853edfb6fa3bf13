"""The memory order of activations, which is independent of their index order.

Every operation indexes images as (N, H, W, C). The Numba kernels want the image number to run
fastest in memory, so that the lanes of a vector are images: no channel count and no map size
leaves lanes empty. Pixels run slowest, so all values of a pixel (its channels and images) are one
block of memory. Some channels of every pixel (one branch of a concatenation) are an ordinary array
whose pixels only lie further apart. PyTorch makes the same distinction with its channels_last
tensors.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from vectorized_ops.errors import OperationError

AnyArray = npt.NDArray[Any]
FloatArray = npt.NDArray[np.float32]

STORED: Final[np.dtype[Any]] = np.dtype(np.uint16)
"""NumPy's type of an array of bfloat16: the upper halves of float32's bits."""

IMAGE_LANES = 16
"""Images are padded to a multiple of this, the lanes of the widest vector register."""


def padded_images(images: int) -> int:
    """Return the number of images, rounded up to whole vectors."""
    return -(-images // IMAGE_LANES) * IMAGE_LANES


def images_last_size(shape: tuple[int, ...]) -> int:
    """Return how many elements `images_last_in` needs for a shape (N, H, W, C) or (N, I)."""
    return padded_images(shape[0]) * math.prod(shape[1:])


def images_last_in(memory: AnyArray, shape: tuple[int, ...]) -> AnyArray:
    """Return an array (N', H, W, C) or (N', I) on the first elements of flat `memory`.

    N' is N rounded up to whole vectors; values are left as they are. Raises OperationError if the
    memory is not flat, C-contiguous and at least `images_last_size(shape)` long.
    """
    size = images_last_size(shape)
    if memory.ndim != 1 or not memory.flags.c_contiguous or len(memory) < size:
        raise OperationError(
            f"an array of shape {shape} was to lie in memory of shape {memory.shape} and strides "
            f"{memory.strides}: expected a flat contiguous piece of at least {size} elements"
        )
    return _on(memory[:size], (padded_images(shape[0]), *shape[1:]))


def zeros_images_last(shape: tuple[int, ...], dtype: npt.DTypeLike = np.float32) -> AnyArray:
    """Return zeros (N, H, W, C) or (N, I) that lie in memory as (H, W, C, N) or (I, N).

    The memory begins at a multiple of 64 bytes, so that no vector spans two cache lines.
    """
    return _on(aligned_zeros((math.prod(shape),), dtype), shape)


def aligned_zeros(shape: tuple[int, ...], dtype: npt.DTypeLike = np.float32) -> AnyArray:
    """Return a C-contiguous array of zeros which begins at a multiple of 64 bytes."""
    kind = np.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    memory = np.zeros(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(kind).reshape(shape)


def images_last(array: AnyArray) -> AnyArray:
    """Return the array (N, H, W, C) or (N, I) as it lies in memory: (H, W, C, N) or (I, N).

    Channels may be a slice of those in memory. Raises OperationError if the images do not run
    fastest, are not whole vectors, or if lines or pixels were left out.
    """
    _pixel_distance(array)
    memory: AnyArray = array.transpose(*range(1, array.ndim), 0)
    return memory


def pixels(array: AnyArray) -> tuple[AnyArray, int]:
    """Return flat memory and the distance of neighbouring pixels, the arguments of a kernel.

    The flat view, C-contiguous, begins at the first element of `array` (N, H, W, C) and ends behind
    its last; element (n, y, x, c) lies at (y*W + x) * distance + c*N + n. Vectors (N, I) are one
    pixel of I channels. Raises OperationError as `images_last` does.
    """
    distance, block = _pixel_distance(array), array.shape[0] * array.shape[-1]
    if distance == block:
        return array.ravel("K"), distance  # in the order of memory, and so no copy
    length = (array.shape[1] * array.shape[2] - 1) * distance + block
    return as_strided(array, (length,), (array.itemsize,)), distance


def _on(memory: AnyArray, shape: tuple[int, ...]) -> AnyArray:
    last = len(shape) - 1
    array: AnyArray = memory.reshape(*shape[1:], shape[0]).transpose(last, *range(last))
    return array


def _pixel_distance(array: AnyArray) -> int:
    """Return the distance of neighbouring pixels in elements; refuse unsuitable layouts."""
    shape, strides, size = array.shape, array.strides, array.itemsize
    number, channels = shape[0], shape[-1]
    block: int = number * channels
    distance = block
    if len(shape) == 4:  # the stride of an axis of one element says nothing
        if shape[2] > 1:
            distance = strides[2] // size
        elif shape[1] > 1:
            distance = strides[1] // size
    whole = number % IMAGE_LANES == 0 and strides[0] == size
    dense = channels == 1 or strides[-1] == number * size
    regular = len(shape) == 2 or shape[1] == 1 or strides[1] == shape[2] * distance * size
    if not (whole and dense and regular and distance >= block):
        raise OperationError(
            f"an array of shape {shape} and strides {strides} was given to a Numba "
            f"kernel: expected a multiple of {IMAGE_LANES} images which run fastest in memory, "
            "then channels, then pixels line by line; make such arrays with "
            "vectorized_ops.layout, or use the reference implementation"
        )
    return distance
