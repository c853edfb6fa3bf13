"""Winograd convolution F(4x4, 5x5) with 2x2 max pooling: 6.25 times fewer multiplications.

The backward passes are the adjoints of the forward pass, so they too work on 64 points per tile,
and both share the points of the gradient; the points of the images are kept from the forward pass.
The rounding error in float32 is about 5e-6 of the largest output (tested).
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import AnyArray, aligned_zeros, images_last, padded_images
from vectorized_ops.numba import _winograd_kernels as kernels
from vectorized_ops.numba._lanes import LANES
from vectorized_ops.numba._product import COLUMN_ROWS, cheapest_rows
from vectorized_ops.numba._tiles import DOT_COLUMNS, DOT_ROWS
from vectorized_ops.numba._winograd_tiles import OUTPUTS, TAPS
from vectorized_ops.numba.compiler import parallel_kernel


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

    algorithm = "winograd"

    def __init__(self, images_shape: tuple[int, ...], filters: int, kernel: int) -> None:
        number, (height, width, channels) = padded_images(images_shape[0]), images_shape[1:]
        if not winograd_fits(images_shape, filters, kernel):
            raise OperationError(
                f"Winograd was asked for a {kernel}x{kernel} convolution of {channels} to "
                f"{filters} channels on {height}x{width} pixels: expected kernel {TAPS}, a map "
                f"whose sides are multiples of {OUTPUTS}, at least {DOT_COLUMNS} channels and "
                f"{DOT_ROWS} filters; ask for the algorithm 'direct' or 'auto'"
            )
        threads = numba.get_num_threads()
        self._tiles = (height - TAPS + 1) // OUTPUTS * ((width - TAPS + 1) // OUTPUTS)
        blocks, square = number // LANES * self._tiles, kernels.SQUARE
        pairs = -(-filters * channels // LANES) * LANES
        self._by_channel = aligned_zeros((square, pairs))
        self._by_filter = aligned_zeros((square, pairs))
        self._weight_points = aligned_zeros((threads, square, pairs))
        self._inputs = aligned_zeros((blocks, square, channels, LANES))
        self._outputs = aligned_zeros((blocks, square, filters, LANES))
        self._products = aligned_zeros((threads, square, filters, LANES))
        self._input_products = aligned_zeros((threads, square, channels, LANES))
        self._taps = aligned_zeros((threads, TAPS * TAPS, LANES))
        self._channel_rows = np.arange(channels) * LANES
        self._filter_rows = np.arange(filters) * LANES
        self._input_offsets = np.arange(blocks) * self._inputs[0].size
        self._output_offsets = np.arange(blocks) * self._outputs[0].size
        self._filter_height = cheapest_rows(filters, COLUMN_ROWS)
        self._channel_height = cheapest_rows(channels, COLUMN_ROWS)

    def forward(
        self, images: AnyArray, weights: AnyArray, bias: AnyArray, out: AnyArray, which: AnyArray
    ) -> None:
        """Write the pooled map and the place of each maximum in its window."""
        kernels.transform_weights(weights, self._by_channel, self._by_filter, self._taps)
        kernels.forward(
            images_last(images), self._by_channel, bias, images_last(out), images_last(which),
            self._inputs, self._products, self._channel_rows, self._filter_height,
        )  # fmt: skip

    def backward(
        self,
        images: AnyArray,  # noqa: ARG002 (their points are kept from the forward pass)
        gradient: AnyArray,
        which: AnyArray,
        weights: AnyArray,  # noqa: ARG002 (likewise)
        weights_out: AnyArray,
        bias_out: AnyArray,
        images_out: AnyArray | None,
    ) -> None:
        """Write the gradients of what the last `forward` saw."""
        pooled = images_last(gradient)
        kernels.transform_gradient(pooled, images_last(which), self._outputs, len(self._taps))
        kernels.backward_weights(
            self._inputs, self._outputs, self._input_offsets, self._output_offsets,
            self._channel_rows, self._weight_points, weights_out, self._taps,
        )  # fmt: skip
        _sum_planes(pooled, bias_out)
        if images_out is not None:
            kernels.backward_data(
                self._outputs, self._by_filter, images_last(images_out), self._input_products,
                self._filter_rows, self._channel_height, self._tiles,
            )  # fmt: skip


@parallel_kernel
def _sum_planes(gradient: Any, out: Any) -> None:
    for k in numba.prange(gradient.shape[0]):
        total = np.float32(0.0)
        for value in gradient[k].flat:
            total += value
        out[k] = total
