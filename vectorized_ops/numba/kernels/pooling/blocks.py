"""Tables for maximum pooling in blocks of SIDE neighbours along a line: the inputs of each block.

Where neighbouring windows overlap, a block reads their common inputs once. Tables (blocks, entries)
int64 have a row for each block: its first member, then 1 for each of SIDE members that exists
(else 0), then its inputs, then one entry about each input.
"""

from __future__ import annotations

import numpy as np

from vectorized_ops.layout import IMAGE_LANES, AnyArray
from vectorized_ops.shapes import PoolingShape

SIDE = 2

READ = 2
"""Lines that are read at a time: those of 2 lines of windows, or of 1 where the stride is 2."""

_LARGEST_KERNEL = 3
"""Pixels along an axis: code for larger windows would be long, and used by few networks."""

_LEAST_LINES = 6
"""Of an image, and of windows: gradients of smaller ones take longer in blocks."""

_WAITING_BYTES = 600 << 10
"""Of second-level cache: lines that wait for the next ones stay there."""

_LONGEST_STRIP, _SHORTEST_STRIP = 128, 56
"""Channels of 16 images that are taken at a time. What waits of a value is at most 5 bytes; what is
read of a pixel is as long as a strip, and longer pieces come from memory faster."""


def strip_of(waiting: int) -> int:
    """Return how many channels to take at a time if so many pixels of each have to wait."""
    return min(_LONGEST_STRIP, _WAITING_BYTES // (5 * IMAGE_LANES * max(1, waiting)))


def windows_fit(shape: PoolingShape) -> bool:
    """Tell whether the maxima of a pooling are better found in blocks."""
    overlap = shape.kernel[0] - shape.stride[0]
    known = shape.stride in ((1, 1), (2, 2)) and min(shape.kernel) >= shape.stride[0]
    return known and _worth_it(shape, overlap * shape.pixels)


def pixels_fit(shape: PoolingShape) -> bool:
    """Tell whether the gradient of a pooling is better made in blocks."""
    return shape.stride == (1, 1) and _worth_it(shape, (shape.kernel[0] - 1) * shape.width)


def _worth_it(shape: PoolingShape, waiting: int) -> bool:
    least = min(shape.lines, shape.pixels, shape.height, shape.width)
    small = max(shape.kernel) <= _LARGEST_KERNEL and strip_of(waiting) >= _SHORTEST_STRIP
    return least >= _LEAST_LINES and small


def seen_by_block(kernel: int, stride: int = 1) -> int:
    """Return how many pixels a block of windows sees, or by stride 1 windows a block of pixels."""
    return kernel + (SIDE - 1) * stride


def window_blocks(shape: PoolingShape) -> AnyArray:
    """Return the table of blocks of windows: the pixels seen, and their places in the first window.

    For a pixel outside the image stands its neighbour inside, which every window that sees the one
    sees too: to see it twice changes no maximum.
    """
    kernel, stride, padding = shape.kernel[1], shape.stride[1], shape.padding[1]
    first = np.arange(0, shape.pixels, SIDE)[:, None]
    start = first * stride - padding
    seen = np.clip(start + np.arange(seen_by_block(kernel, stride)), 0, shape.width - 1)
    exists = first + np.arange(SIDE) < shape.pixels
    return np.hstack([first, exists, seen, seen - start])


def pixel_blocks(shape: PoolingShape) -> AnyArray:
    """Return the table of blocks of pixels: the windows that may hold one, and 1 if they exist.

    The stride is 1. For one that does not (0) stands another.
    """
    kernel, padding = shape.kernel[1], shape.padding[1]
    first = np.arange(0, shape.width, SIDE)[:, None]
    seen = first + padding - (kernel - 1) + np.arange(seen_by_block(kernel))
    exists = first + np.arange(SIDE) < shape.width, (seen >= 0) & (seen < shape.pixels)
    return np.hstack([first, exists[0], np.clip(seen, 0, shape.pixels - 1), exists[1]])
