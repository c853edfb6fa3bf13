"""Convolution (stride 1, no padding) followed by 2x2 max pooling, defined by the two."""

from __future__ import annotations

import numpy as np

from vectorized_ops.layout import AnyArray
from vectorized_ops.reference.convolution import Convolution
from vectorized_ops.reference.pooling import MaxPooling
from vectorized_ops.shapes import ConvolutionShape, PoolingShape


class PooledConvolution:
    """See `Convolution` and `MaxPooling`; out and which (N, H'/2, W'/2, K)."""

    algorithm = "composed"

    def __init__(self, images_shape: tuple[int, ...], filters: int, kernel: int) -> None:
        number, height, width, channels = images_shape
        shape = ConvolutionShape(number, height, width, channels, filters, (kernel, kernel))
        self._convolution = Convolution(shape)
        self._pooling = MaxPooling(PoolingShape(shape.lines, shape.pixels, (2, 2), (2, 2)))
        self._full = np.zeros(shape.outputs, np.float32)
        self._gradient = np.zeros(shape.outputs, np.float32)

    def forward(
        self, images: AnyArray, weights: AnyArray, bias: AnyArray, out: AnyArray, which: AnyArray
    ) -> None:
        """Write the pooled map and the place of each maximum in its window."""
        self._convolution.forward(images, weights, bias, self._full)
        self._pooling.forward(self._full, out, which)

    def backward(
        self,
        images: AnyArray,
        gradient: AnyArray,
        which: AnyArray,
        weights: AnyArray,
        weights_out: AnyArray,
        bias_out: AnyArray,
        images_out: AnyArray | None,
    ) -> None:
        """Write the gradients of weights, bias and, unless it is None, of the images.

        The arguments must be those of the last `forward`: an implementation may keep what it needs.
        """
        self._pooling.backward(gradient, which, self._gradient)
        self._convolution.backward_weights(images, self._gradient, weights_out, bias_out)
        if images_out is not None:
            self._convolution.backward_data(self._gradient, weights, images_out)


def pooled_convolution(
    images_shape: tuple[int, ...],
    filters: int,
    kernel: int,
    algorithm: str = "auto",  # noqa: ARG001 (the definition has one)
) -> PooledConvolution:
    """Return the operation."""
    return PooledConvolution(images_shape, filters, kernel)
