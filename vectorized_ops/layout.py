"""The memory order of activations: logical index order and order in memory are two things.

Every operation indexes images as (N, H, W, C). The Numba kernels want the image number to run
fastest in memory, so that the lanes of a vector are images: no channel count and no map size
leaves lanes empty. PyTorch draws the same distinction with its channels_last tensors.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from vectorized_ops.errors import OperationError

AnyArray = npt.NDArray[Any]

IMAGE_LANES = 16
"""Images are padded to a multiple of this, the lanes of the widest vector register."""


def padded_images(images: int) -> int:
    """Return the number of images, rounded up to whole vectors."""
    return -(-images // IMAGE_LANES) * IMAGE_LANES


def zeros_images_last(shape: tuple[int, ...], dtype: npt.DTypeLike = np.float32) -> AnyArray:
    """Return zeros (N, H, W, C) or (N, I) that lie in memory as (C, H, W, N) or (I, N).

    The memory begins at a multiple of 64 bytes, so that no vector spans two cache lines.
    """
    order = _memory_order(len(shape))
    memory = aligned_zeros(tuple(shape[axis] for axis in order), dtype)
    images: AnyArray = memory.transpose(np.argsort(order))
    return images


def aligned_zeros(shape: tuple[int, ...], dtype: npt.DTypeLike = np.float32) -> AnyArray:
    """Return a C-contiguous array of zeros which begins at a multiple of 64 bytes."""
    kind = np.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    memory = np.zeros(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size].view(kind).reshape(shape)


def _memory_order(axes: int) -> tuple[int, ...]:
    """Channels, lines, pixels, images: flattened, the order of Caffe's and PyTorch's weights."""
    return (3, 1, 2, 0) if axes == 4 else (1, 0)


def images_last(array: AnyArray) -> AnyArray:
    """Return the array (N, H, W, C) or (N, I) as it lies in memory: (C, H, W, N) or (I, N).

    Raises OperationError if the images do not run fastest, or are not whole vectors.
    """
    memory: AnyArray = array.transpose(_memory_order(array.ndim))
    if not memory.flags.c_contiguous or array.shape[0] % IMAGE_LANES:
        raise OperationError(
            f"an array of shape {array.shape} and strides {array.strides} was given to a Numba "
            f"kernel: expected a multiple of {IMAGE_LANES} images which run fastest in memory; "
            "make such arrays with vectorized_ops.layout, or use the reference implementation"
        )
    return memory
