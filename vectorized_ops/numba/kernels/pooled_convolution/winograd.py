"""Winograd convolution F(4x4, 5x5) with 2x2 max pooling: 6.25 times fewer multiplications.

The backward passes are the adjoints of the forward pass, so they too work on 64 points per tile,
and both share the points of the gradient.
The rounding error in float32 is about 5e-6 of the largest output (tested).
"""

from __future__ import annotations

from functools import cached_property

import numba
import numpy as np

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import (
    STORED,
    AnyArray,
    aligned_zeros,
    padded_images,
    pixels,
    zeros_images_last,
)
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.kernels.convolution.dot_tiles import (
    COLUMN_ROWS,
    DOT_COLUMNS,
    DOT_ROWS,
    cheapest_rows,
)
from vectorized_ops.numba.kernels.convolution.row_tiles import row_sums
from vectorized_ops.numba.kernels.convolution.winograd_pooled_transforms import OUTPUTS, TAPS
from vectorized_ops.numba.kernels.pooled_convolution import winograd_kernels as kernels


def winograd_fits(images_shape: tuple[int, ...], filters: int, kernel: int) -> bool:
    """Tell whether the shape is one that `WinogradPooledConvolution` takes."""
    _, height, width, channels = images_shape
    sides = height - TAPS + 1, width - TAPS + 1
    whole = all(side > 0 and side % OUTPUTS == 0 for side in sides)
    return kernel == TAPS and whole and filters >= DOT_ROWS and channels >= DOT_COLUMNS


class WinogradPooledConvolution:
    """The pooled convolution by minimal filtering (stride 1, no padding).

    N is rounded up to whole vectors. Raises OperationError for shapes that do not fit.
    """

    algorithm = "winograd4"

    def __init__(self, images_shape: tuple[int, ...], filters: int, kernel: int) -> None:
        number, height, width, channels = images_shape
        if not winograd_fits(images_shape, filters, kernel):
            raise OperationError(
                f"Winograd was asked for a {kernel}x{kernel} convolution of {channels} to "
                f"{filters} channels on {height}x{width} pixels: expected kernel {TAPS}, a map "
                f"whose sides are multiples of {OUTPUTS}, at least {DOT_COLUMNS} channels and "
                f"{DOT_ROWS} filters; ask for the algorithm 'direct' or 'auto'"
            )
        self._maps = kernels.Maps(padded_images(number), height, width, channels, filters)
        threads, square = numba.get_num_threads(), kernels.SQUARE
        tiles = (height - TAPS + 1) // OUTPUTS * ((width - TAPS + 1) // OUTPUTS)
        pairs = -(-filters * channels // LANES) * LANES
        self._weight_points = aligned_zeros((threads, square, pairs))  # forward's, then backward's
        self._sums = aligned_zeros((threads, square, pairs))
        self._pairs = aligned_zeros((threads, pairs))
        self._taps = aligned_zeros((threads, pairs // LANES, kernels.AREA, LANES))
        places = np.arange(filters * channels).reshape(filters, channels) * kernels.AREA
        self._by_channel, self._by_filter = (
            np.resize(order, pairs) for order in (places.T, places)
        )
        self._inputs, self._outputs, self._products = (
            aligned_zeros((threads, tiles, square, kernels.point_rows(rows), LANES))
            for rows in (channels, filters, channels)
        )
        self._tables = (
            np.arange(tiles) * self._inputs[0, 0].size,
            np.arange(tiles) * self._outputs[0, 0].size,
            np.arange(channels) * LANES,
            np.arange(filters) * LANES,
        )
        self._multiply = kernels.forward_kernel(cheapest_rows(filters, COLUMN_ROWS))
        self._multiply_back = kernels.backward_kernel(cheapest_rows(channels, COLUMN_ROWS))

    @cached_property
    def _sums_of_images(self) -> AnyArray:
        number, height, width, channels, _ = self._maps
        return zeros_images_last((number, height, width, channels))

    def forward(
        self, images: AnyArray, weights: AnyArray, bias: AnyArray, out: AnyArray, which: AnyArray
    ) -> None:
        """Write the pooled map and the place of each maximum in its window."""
        self._multiply(
            self._maps, *pixels(images), weights.reshape(-1), self._by_channel,
            self._weight_points, bias, *pixels(out), *pixels(which),
            self._inputs, self._outputs, self._tables[2],
        )  # fmt: skip

    def backward(
        self,
        images: AnyArray,
        gradient: AnyArray,
        which: AnyArray,
        weights: AnyArray,
        weights_out: AnyArray,
        bias_out: AnyArray,
        images_out: AnyArray | None,
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> None:
        """Write the gradients of weights, bias and, unless it is None, of the images."""
        if images_out is not None and images_out.dtype == STORED:
            from vectorized_ops.numba.affine import Affine

            # Overlapping tiles add to their sums, which are not rounded on the way.
            sums = self._sums_of_images
            self.backward(images, gradient, which, weights, weights_out, bias_out, sums)
            Affine(1.0).backward(sums, images_out, add, mask)
            return
        pooled, seen = pixels(gradient), pixels(images)
        target = seen if images_out is None else pixels(images_out)
        masked = images_out is not None and mask is not None
        self._multiply_back(
            self._maps, *seen, *pooled, *pixels(which), self._inputs, self._outputs,
            self._sums, self._pairs, self._tables, weights.reshape(-1), self._by_filter,
            self._weight_points, self._taps, self._products,
            *target, images_out is not None, add,
            *(target if mask is None else pixels(mask)), masked,
        )  # fmt: skip
        kernels.write_weights(self._taps, weights_out)
        cells = gradient.shape[1] * gradient.shape[2]
        row_sums(pooled[0], pooled[1], cells, self._maps.number, bias_out)
