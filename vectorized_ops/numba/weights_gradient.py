"""The gradient of a convolution's weights, in register tiles over memory (H, W, C, N)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol, final

import numpy as np

from vectorized_ops.layout import IMAGE_LANES, STORED, AnyArray, padded_images, pixels
from vectorized_ops.numba.emit.bfloat16 import bfloat16_among
from vectorized_ops.numba.kernels.convolution.direct import tile_rows
from vectorized_ops.numba.kernels.convolution.few_channels import (
    bordered_size,
    copy_with_borders,
    widened,
    widens,
)
from vectorized_ops.numba.kernels.convolution.weights_gradient import (
    PANEL,
    PANEL_COLUMNS,
    Panels,
    divide,
    gather_bias,
    gather_sums,
    outer_product_kernel,
    panels_of,
    sums_size,
)
from vectorized_ops.shapes import ConvolutionShape

_PANEL_ROWS: Final = 34
"""Making one vector of a panel costs about as much as so many rows of the tiles that use it.

Measured on an EPYC (Zen 4), 2 threads, 1x1 kernels of 16 to 1152 channels.
"""

_NARROW: Final = 1.5
"""The time of a tile one vector wide, as a multiple of half of one that is two vectors wide."""


class OuterProducts(Protocol):
    """Tiles that sum products of pairs of images, of which there may be 8 more than vectors."""

    def rows(self, channels: int) -> int:
        """How many channels a tile has."""

    def kernel(self, rows: int, images: int, columns: tuple[int, ...]) -> Callable[..., None]:
        """The kernel, as `outer_product_kernel` gives one."""


@final
class WeightsGradient:
    """The gradients of weights and biases of convolutions of one shape.

    With `turned` (of 1x1 kernels, see `is_quicker_turned`) images take the place of the gradient:
    those are transposed into panels that are fewer. There is no gradient of biases then.
    `products` are those of other tiles, where both operands are bfloat16.
    """

    def __init__(
        self,
        shape: ConvolutionShape,
        threads: int,
        turned: bool = False,
        products: OuterProducts | None = None,
    ) -> None:
        self._turned, self._products = turned, products
        self._given = shape = _turned(shape) if turned else shape
        self._images, self._threads = padded_images(shape.images), threads
        self._panels = panels_of(shape.filters, shape.groups)
        self._shape = widened(shape) if widens(shape) else shape
        self._division = divide(self._shape, len(self._panels.starts), threads)

    @property
    def scratch_size(self) -> int:
        """Floats of memory that a call needs."""
        return sum(self._sizes())

    def write(
        self,
        images: AnyArray,
        gradient: AnyArray,
        memory: AnyArray,
        weights_out: AnyArray,
        bias_out: AnyArray | None = None,
    ) -> None:
        """Write the gradients of weights and, unless it is None, of the bias; work in `memory`."""
        if self._turned:
            images, gradient = gradient, images
        shape, division, panels = self._shape, self._division, self._panels
        channels = shape.channels // shape.groups
        sums, bias_sums, turned, bordered = self._pieces(memory)
        (source, distance), (above, above_distance) = pixels(images), pixels(gradient)
        number, size = self._images, (self._given.height, self._given.width)
        both = source.dtype == above.dtype == STORED
        others = self._products if both else None
        rows = tile_rows(channels) if others is None else others.rows(channels)
        pairs = both and (others is not None or number % (2 * IMAGE_LANES) == 0)
        if pairs:  # of neighbouring images: as a float32 each
            source, above = source.view(np.float32), above.view(np.float32)
            distance, above_distance, number = distance // 2, above_distance // 2, number // 2
        if len(bordered):
            pixel, whole = self._given.channels * number, bordered_size(self._given)
            bordered = bordered.view(source.dtype)
            copy_with_borders(
                source, distance, size, self._given.padding, pixel, bordered, whole, pixel,
                self._threads,
            )  # fmt: skip
            source, distance, size = bordered, pixel, whole
        if others is None:
            stored = bfloat16_among(left=source)
            kernel = outer_product_kernel(rows, number, panels.columns, pairs, stored)
        else:
            kernel = others.kernel(rows, number, panels.columns)
        kernel(
            source, distance, above, above_distance, sums, bias_sums, turned,
            panels.starts, panels.widths, shape.filters, channels, shape.groups,
            size, (shape.lines, shape.pixels), shape.kernel,
            shape.stride, shape.padding, shape.dilation, (division.lines, division.pixels),
            division.by_pixels, division.by_filters,
        )  # fmt: skip
        gather_sums(
            sums, rows, channels, shape.kernel[0] * shape.kernel[1],
            self._given.kernel[1] // shape.kernel[1], panels, self._turned,
            weights_out.reshape(-1),
        )  # fmt: skip
        if bias_out is not None:
            gather_bias(bias_sums, panels.starts, panels.of_filter, bias_out)

    def _sizes(self) -> tuple[int, int, int, int]:
        """Floats of all sums, sums of biases, turned panels, and of images with borders."""
        division, wide = self._division, self._shape is not self._given
        panel = division.lines * division.pixels * self._images * PANEL
        bordered = math.prod(bordered_size(self._given)) * self._given.channels * self._images
        channels, products = self._shape.weights[1], self._products
        heights = {tile_rows(channels)} | (set() if products is None else {products.rows(channels)})
        return (
            division.by_pixels
            * max(sums_size(self._shape, self._panels, rows) for rows in heights),
            division.by_pixels * len(self._panels.starts) * PANEL,
            self._threads * panel,
            bordered * wide,
        )

    def _pieces(self, memory: AnyArray) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray]:
        sizes, share = self._sizes(), self._division.by_pixels
        sums, bias_sums, turned, bordered = np.split(memory[: sum(sizes)], np.cumsum(sizes)[:-1])
        return (
            sums.reshape(share, -1),
            bias_sums.reshape(share, -1),
            turned.reshape(self._threads, -1),
            bordered,
        )


def is_quicker_turned(shape: ConvolutionShape) -> bool:
    """Whether images take less time to be transposed into panels than the gradient.

    So it is where there are many more filters than channels. Only for 1x1 kernels: both have the
    same pixels.
    """
    is_pointwise = (shape.kernel, shape.stride, shape.padding) == ((1, 1), (1, 1), (0, 0))
    return is_pointwise and shape.groups == 1 and _cost(_turned(shape)) < _cost(shape)


def _turned(shape: ConvolutionShape) -> ConvolutionShape:
    return replace(shape, channels=shape.filters, filters=shape.channels)


def _cost(shape: ConvolutionShape) -> float:
    panels: Panels = panels_of(shape.filters, 1)
    vectors = sum(w if w == PANEL_COLUMNS else _NARROW for w in panels.widths.tolist())
    return float(vectors * (shape.channels + _PANEL_ROWS))
