"""Convolution by direct summation in register tiles; one lane is one image."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import AnyArray, aligned_zeros, images_last, padded_images
from vectorized_ops.numba._lanes import LANES
from vectorized_ops.numba._product import plane_sum, product_rows
from vectorized_ops.numba._tiles import DOT_COLUMNS, DOT_ROWS, dot_tile
from vectorized_ops.numba.compiler import parallel_kernel


class Convolution:
    """See `vectorized_ops.reference.convolution.Convolution`; images run fastest in memory.

    The reduction over channels and taps walks a table of offsets made once, so one tile serves
    every kernel size, stride and padding. Backward-data is the same product over the gradient,
    spread by the stride and bordered with zeros, with the weights turned round. N is rounded up to
    whole vectors. Raises OperationError for shapes that the tiles do not take.
    """

    def __init__(
        self, images_shape: tuple[int, ...], filters: int, kernel: int, stride: int, padding: int
    ) -> None:
        number, (height, width, channels) = padded_images(images_shape[0]), images_shape[1:]
        taps, bordered = channels * kernel * kernel, (height + 2 * padding, width + 2 * padding)
        fits = padding < kernel <= min(bordered)
        if not fits or filters < DOT_ROWS or taps < DOT_COLUMNS:
            raise OperationError(
                f"a convolution of {filters} filters, kernel {kernel}, padding {padding} on images "
                f"{height}x{width}x{channels} was asked of the Numba implementation: expected "
                f"padding < kernel <= the sides of the padded image, at least {DOT_ROWS} filters "
                f"and {DOT_COLUMNS} weights per filter; use the reference or the oneDNN "
                "implementation"
            )
        self._stride, self._padding = stride, padding
        self._images = aligned_zeros((channels, *bordered, number)) if padding else None
        self._offsets = _tap_offsets(channels, kernel, bordered, number)
        self._gradient = aligned_zeros((filters, height + kernel - 1, width + kernel - 1, number))
        self._turned = aligned_zeros((channels, filters * kernel * kernel))
        self._turned_offsets = _tap_offsets(filters, kernel, self._gradient.shape[1:3], number)
        lines = (bordered[0] - kernel) // stride + 1
        pixels = (bordered[1] - kernel) // stride + 1
        y, x, lane = np.ix_(range(lines), range(pixels), range(0, number, LANES))
        self._output_steps = ((y * pixels + x) * number + lane).reshape(-1)
        self._input_steps = ((y * bordered[1] + x) * stride * number + lane).reshape(-1)

    def forward(self, images: AnyArray, weights: AnyArray, bias: AnyArray, out: AnyArray) -> None:
        """Write the correlation of images and weights, plus bias."""
        source = self._bordered(images)
        _correlate(source, weights, images_last(out), self._offsets, self._stride)
        _add_bias(images_last(out), bias)

    def backward_data(self, gradient: AnyArray, weights: AnyArray, out: AnyArray) -> None:
        """Write the gradient of the images."""
        first = weights.shape[2] - 1 - self._padding
        _turn(weights, self._turned)
        _spread(images_last(gradient), self._gradient, first, self._stride)
        turned = self._turned.reshape(weights.shape[1], weights.shape[0], *weights.shape[2:])
        _correlate(self._gradient, turned, images_last(out), self._turned_offsets, 1)

    def backward_weights(
        self, images: AnyArray, gradient: AnyArray, weights_out: AnyArray, bias_out: AnyArray
    ) -> None:
        """Write the gradients of weights and bias."""
        source = self._images if self._images is not None else images_last(images)
        _backward_weights(
            source,
            images_last(gradient),
            weights_out,
            bias_out,
            self._offsets,
            self._output_steps,
            self._input_steps,
        )

    def _bordered(self, images: AnyArray) -> AnyArray:
        if self._images is None:
            return images_last(images)
        _spread(images_last(images), self._images, self._padding, 1)
        return self._images


def _tap_offsets(channels: int, kernel: int, plane: tuple[int, ...], number: int) -> AnyArray:
    c, r, s = np.ix_(range(channels), range(kernel), range(kernel))
    offsets: AnyArray = (((c * plane[0] + r) * plane[1] + s) * number).reshape(-1)
    return offsets


@parallel_kernel
def _correlate(images: Any, weights: Any, out: Any, offsets: Any, stride: int) -> None:
    filters, lines, pixels, number = out.shape
    for pixel in numba.prange(lines * pixels):
        y, x = pixel // pixels, pixel % pixels
        product_rows(
            number // LANES, 0, filters, out, pixel * number, lines * pixels * number,
            weights, 0, len(offsets), 1,
            images, (y * images.shape[2] + x) * stride * number, offsets, len(offsets),
        )  # fmt: skip


@parallel_kernel
def _add_bias(out: Any, bias: Any) -> None:
    for k in numba.prange(out.shape[0]):
        out[k] += bias[k]


@parallel_kernel
def _spread(images: Any, out: Any, border: int, stride: int) -> None:
    for c in numba.prange(images.shape[0]):
        for y in range(images.shape[1]):
            for x in range(images.shape[2]):
                out[c, border + y * stride, border + x * stride] = images[c, y, x]


@parallel_kernel
def _turn(weights: Any, out: Any) -> None:
    filters, channels, lines, pixels = weights.shape
    for c in numba.prange(channels):
        for k in range(filters):
            for tap in range(lines * pixels):
                r, s = lines - 1 - tap // pixels, pixels - 1 - tap % pixels
                out[c, k * lines * pixels + tap] = weights[k, c, r, s]


@parallel_kernel
def _backward_weights(
    images: Any,
    gradient: Any,
    weights_out: Any,
    bias_out: Any,
    tap_offsets: Any,
    output_steps: Any,
    input_steps: Any,
) -> None:
    filters, taps = gradient.shape[0], len(tap_offsets)
    row_stride = gradient.shape[1] * gradient.shape[2] * gradient.shape[3]
    for block in numba.prange((filters + DOT_ROWS - 1) // DOT_ROWS):
        k = min(block * DOT_ROWS, filters - DOT_ROWS)
        for column in range(0, taps, DOT_COLUMNS):
            tap = min(column, taps - DOT_COLUMNS)
            dot_tile(
                weights_out, k * taps + tap, taps,
                gradient, k * row_stride, row_stride, output_steps,
                images, 0, tap_offsets, tap, input_steps, len(output_steps),
            )  # fmt: skip
        for row in range(block * DOT_ROWS, min((block + 1) * DOT_ROWS, filters)):
            bias_out[row] = plane_sum(gradient[row])
