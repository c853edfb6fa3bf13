"""Dense layers as matrix products in register tiles; one lane is one image."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import AnyArray, aligned_zeros, images_last, padded_images
from vectorized_ops.numba._lanes import LANES
from vectorized_ops.numba._product import product_rows
from vectorized_ops.numba._threads import part
from vectorized_ops.numba.compiler import parallel_kernel


class Dense:
    """See `vectorized_ops.reference.dense.Dense`; inputs and outputs have images run fastest.

    N is rounded up to whole vectors. Raises OperationError for fewer inputs than vector lanes.
    """

    def __init__(self, images: int, inputs: int, outputs: int) -> None:
        if inputs < LANES:
            raise OperationError(
                f"a dense layer with {inputs} inputs was asked of the Numba implementation: "
                f"expected at least {LANES}; use the reference or the oneDNN implementation"
            )
        images = padded_images(images)
        self._threads = numba.get_num_threads()
        self._by_image = aligned_zeros((images, inputs))
        self._input_rows = np.arange(inputs) * images
        self._output_rows = np.arange(outputs) * images
        self._image_rows = np.arange(images) * inputs

    def forward(self, inputs: AnyArray, weights: AnyArray, bias: AnyArray, out: AnyArray) -> None:
        """Write inputs @ weights^T + bias."""
        _forward(
            images_last(inputs), weights, bias, images_last(out), self._input_rows, self._threads
        )

    def backward_data(self, gradient: AnyArray, weights: AnyArray, out: AnyArray) -> None:
        """Write gradient @ weights."""
        _backward_data(
            images_last(gradient), weights, images_last(out), self._output_rows, self._threads
        )

    def backward_weights(
        self, inputs: AnyArray, gradient: AnyArray, weights_out: AnyArray, bias_out: AnyArray
    ) -> None:
        """Write gradient^T @ inputs and the sum of `gradient` over the images."""
        _transpose(images_last(inputs), self._by_image)
        _backward_weights(
            self._by_image,
            images_last(gradient),
            weights_out,
            bias_out,
            self._image_rows,
            self._threads,
        )


@parallel_kernel
def _forward(inputs: Any, weights: Any, bias: Any, out: Any, offsets: Any, threads: int) -> None:
    outputs, images = out.shape
    for thread in numba.prange(threads):
        first, last = part(outputs, thread, threads), part(outputs, thread + 1, threads)
        product_rows(
            images // LANES, first, last, out, 0, images,
            weights, 0, weights.shape[1], 1, inputs, 0, offsets, weights.shape[1],
        )  # fmt: skip
        for row in range(first, last):
            for image in range(images):
                out[row, image] += bias[row]


@parallel_kernel
def _backward_data(gradient: Any, weights: Any, out: Any, offsets: Any, threads: int) -> None:
    inputs, images = out.shape
    for thread in numba.prange(threads):
        product_rows(
            images // LANES, part(inputs, thread, threads), part(inputs, thread + 1, threads),
            out, 0, images, weights, 0, 1, inputs, gradient, 0, offsets, weights.shape[0],
        )  # fmt: skip


@parallel_kernel
def _transpose(inputs: Any, out: Any) -> None:
    blocks = (inputs.shape[0] + 63) // 64
    for block in numba.prange(blocks):
        for image in range(inputs.shape[1]):
            for row in range(block * 64, min(block * 64 + 64, inputs.shape[0])):
                out[image, row] = inputs[row, image]


@parallel_kernel
def _backward_weights(
    inputs: Any, gradient: Any, weights_out: Any, bias_out: Any, offsets: Any, threads: int
) -> None:
    outputs, images = gradient.shape
    width = weights_out.shape[1]
    columns, rest = width // LANES, width % LANES
    for thread in numba.prange(threads):
        first, last = part(outputs, thread, threads), part(outputs, thread + 1, threads)
        product_rows(
            columns, first, last, weights_out, 0, width,
            gradient, 0, images, 1, inputs, 0, offsets, images,
        )  # fmt: skip
        if rest:
            product_rows(
                1, first, last, weights_out, width - LANES, width,
                gradient, 0, images, 1, inputs, width - LANES, offsets, images,
            )  # fmt: skip
        for row in range(first, last):
            total = np.float32(0.0)
            for image in range(images):
                total += gradient[row, image]
            bias_out[row] = total
