"""Pooling, defined: the largest value or the mean of each window, or the mean of a whole map."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import AnyArray
from vectorized_ops.reference.gradient import write_gradient
from vectorized_ops.shapes import AdaptivePoolingShape, Pair, PoolingShape

LARGEST_WINDOW = 256
"""Pixels: places in a window are bytes."""


def check_window(kernel: Pair) -> None:
    """Raise OperationError for windows of more places than a byte can name."""
    if kernel[0] * kernel[1] > LARGEST_WINDOW:
        raise OperationError(
            f"max pooling over windows of {kernel[0]}x{kernel[1]} pixels was asked for: expected "
            f"at most {LARGEST_WINDOW} pixels; pool twice with smaller windows"
        )


class MaxPooling:
    """The largest value of each window of R x S pixels.

    images (N, H, W, C) and out (N, H', W', C) float32; `which` (N, H', W', C) uint8 is the place
    y*S + x of the maximum in its window: the first of equal values, and a NaN before all others
    (of several NaN, any). Padding is never the maximum. Raises OperationError for windows of more
    than 256 pixels.
    """

    def __init__(self, shape: PoolingShape) -> None:
        check_window(shape.kernel)
        self._shape = shape
        self._inside = _windows(np.ones((1, shape.height, shape.width, 1), bool), shape)

    def forward(self, images: AnyArray, out: AnyArray, which: AnyArray) -> None:
        """Write the maxima and their places."""
        values = _windows(images, self._shape)
        inside = np.broadcast_to(self._inside, values.shape)
        largest = values.max(axis=-1, where=inside, initial=-np.inf)[..., None]
        winners = inside & ((values == largest) | np.isnan(values))
        which[...] = winners.argmax(axis=-1)
        out[...] = np.take_along_axis(values, which[..., None].astype(np.intp), axis=-1)[..., 0]

    @np.errstate(invalid="ignore")
    def backward(
        self,
        gradient: AnyArray,
        which: AnyArray,
        out: AnyArray,
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> None:
        """Write the gradient of the images: each cell's goes to the pixel that was largest.

        `add` and `mask` as in `vectorized_ops.reference.gradient.write_gradient`.
        """
        places = np.arange(self._shape.kernel[0] * self._shape.kernel[1])
        shares = np.where(which[..., None] == places, gradient[..., None], 0)
        write_gradient(_overlapped(shares, self._shape), out, add, mask)


class AveragePooling:
    """The mean of each window; images (N, H, W, C), out (N, H', W', C), float32.

    Zeros of the padding count as pixels, unless `counts_padding` is False. What a last window
    (`ceil`) holds beyond them does not, as in Caffe and with PyTorch's `count_include_pad`.
    """

    def __init__(self, shape: PoolingShape | AdaptivePoolingShape) -> None:
        self._rows, self._columns = (_spans(shape, axis) for axis in (0, 1))

    @np.errstate(invalid="ignore")
    def forward(self, images: AnyArray, out: AnyArray) -> None:
        """Write the means."""
        for y, (lines, height) in enumerate(self._rows):
            for x, (columns, width) in enumerate(self._columns):
                total = images[:, lines, columns].sum(axis=(1, 2))
                out[:, y, x] = total / images.dtype.type(height * width)

    @np.errstate(invalid="ignore")
    def backward(
        self, gradient: AnyArray, out: AnyArray, add: bool = False, mask: AnyArray | None = None
    ) -> None:
        """Write the gradient of the images: each pixel gets its share of every window's.

        `add` and `mask` as in `vectorized_ops.reference.gradient.write_gradient`.
        """
        total = np.zeros(out.shape, gradient.dtype)
        for y, (lines, height) in enumerate(self._rows):
            for x, (columns, width) in enumerate(self._columns):
                share = gradient[:, y, x] / gradient.dtype.type(height * width)
                total[:, lines, columns] += share[:, None, None]
        write_gradient(total, out, add, mask)


class GlobalAveragePooling:
    """The mean of each map: images (N, H, W, C), out (N, C), float32."""

    @np.errstate(invalid="ignore")
    def forward(self, images: AnyArray, out: AnyArray) -> None:
        """Write the means."""
        out[...] = images.mean(axis=(1, 2))

    @np.errstate(invalid="ignore")
    def backward(
        self, gradient: AnyArray, out: AnyArray, add: bool = False, mask: AnyArray | None = None
    ) -> None:
        """Write the gradient of the images from the gradient (N, C) of the means.

        `add` and `mask` as in `vectorized_ops.reference.gradient.write_gradient`.
        """
        share = gradient[:, None, None] / (out.shape[1] * out.shape[2])
        write_gradient(np.broadcast_to(share, out.shape), out, add, mask)


def _border(shape: PoolingShape) -> tuple[Pair, Pair, Pair, Pair]:
    """Return the zeros before and behind each axis; behind, as far as the last windows reach."""
    (y, x), (down, right) = shape.padding, shape.stride
    bottom = (shape.lines - 1) * down + shape.kernel[0] - shape.height - y
    end = (shape.pixels - 1) * right + shape.kernel[1] - shape.width - x
    return (0, 0), (y, max(bottom, 0)), (x, max(end, 0)), (0, 0)


def _windows(images: AnyArray, shape: PoolingShape) -> AnyArray:
    """Return (N, H', W', C, R*S), zero (False) outside of the images."""
    windows = sliding_window_view(np.pad(images, _border(shape)), shape.kernel, axis=(1, 2))
    taken = windows[:, :: shape.stride[0], :: shape.stride[1]][:, : shape.lines, : shape.pixels]
    return taken.reshape(*taken.shape[:4], -1)


def _overlapped(shares: AnyArray, shape: PoolingShape) -> AnyArray:
    """Return the sum (N, H, W, C) over all windows of their shares (N, H', W', C, R*S)."""
    images = shares.shape[0], shape.height, shape.width, shares.shape[3]
    bordered = np.pad(np.zeros(images, shares.dtype), _border(shape))
    for place, (r, s) in enumerate(np.ndindex(shape.kernel)):
        y = slice(r, r + (shape.lines - 1) * shape.stride[0] + 1, shape.stride[0])
        x = slice(s, s + (shape.pixels - 1) * shape.stride[1] + 1, shape.stride[1])
        bordered[:, y, x] += shares[..., place]
    top, left = shape.padding
    return bordered[:, top : top + shape.height, left : left + shape.width]


def _spans(shape: PoolingShape | AdaptivePoolingShape, axis: int) -> list[tuple[slice, int]]:
    """Return the lines (axis 0) or columns (1) of the image in each window, and how many count."""
    starts, lengths = shape.starts(axis), shape.lengths(axis)
    return [
        (slice(max(start, 0), start + length), counted)
        for start, length, counted in zip(starts, lengths, shape.counted(axis), strict=True)
    ]
