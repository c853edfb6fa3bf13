"""Pooling with stride 1 in blocks of SIDE neighbours along a line: what each block sees, in tables.

Neighbouring windows overlap: a block reads once what both of its members see. Tables (blocks,
entries) int64 hold a row for each block: its first member, then 1 for each of SIDE members that
exists (else 0), then what is seen, then something about each thing seen.
"""

from __future__ import annotations

import numpy as np

from vectorized_ops.layout import AnyArray
from vectorized_ops.shapes import PoolingShape

SIDE = 2

_LARGEST_KERNEL = 3
"""Pixels along an axis: code for larger windows would be long, and used by few networks."""

_LEAST_LINES = 8
"""Of an image: on a small one too much is done for windows that share nothing."""

_MOST_PIXELS = 64
"""Side by side: the lines that wait, 512 values of 5 bytes for each pixel, must stay in a cache."""


def blocks_fit(shape: PoolingShape) -> bool:
    """Tell whether a pooling is better made in blocks."""
    least = min(shape.lines, shape.pixels, shape.height, shape.width)
    large = max(shape.kernel) > _LARGEST_KERNEL or max(shape.width, shape.pixels) > _MOST_PIXELS
    return shape.stride == (1, 1) and least >= _LEAST_LINES and not large


def seen_by_block(kernel: int) -> int:
    """Return how many pixels a block of windows sees, or windows hold pixels of a block."""
    return kernel + SIDE - 1


def window_blocks(shape: PoolingShape) -> AnyArray:
    """Return the table of blocks of windows: the pixels seen, and their places in the first window.

    For a pixel outside the image stands its neighbour inside, which every window that sees the one
    sees too: to see it twice changes no maximum.
    """
    kernel, padding = shape.kernel[1], shape.padding[1]
    first = np.arange(0, shape.pixels, SIDE)[:, None]
    seen = np.clip(first - padding + np.arange(seen_by_block(kernel)), 0, shape.width - 1)
    exists = first + np.arange(SIDE) < shape.pixels
    return np.hstack([first, exists, seen, seen - first + padding])


def pixel_blocks(shape: PoolingShape) -> AnyArray:
    """Return the table of blocks of pixels: the windows that may hold one, and 1 if they exist.

    For one that does not (0) stands another.
    """
    kernel, padding = shape.kernel[1], shape.padding[1]
    first = np.arange(0, shape.width, SIDE)[:, None]
    seen = first + padding - (kernel - 1) + np.arange(seen_by_block(kernel))
    exists = first + np.arange(SIDE) < shape.width, (seen >= 0) & (seen < shape.pixels)
    return np.hstack([first, exists[0], np.clip(seen, 0, shape.pixels - 1), exists[1]])
