"""Convolution, defined."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from vectorized_ops.layout import AnyArray


class Convolution:
    """A two-dimensional correlation with K filters of R x R taps over C channels, plus bias.

    images (N, H, W, C), weights (K, C, R, R), bias (K,), out (N, H', W', K), all float32, with
    H' = (H + 2*padding - R) // stride + 1. 2*N*K*C*R*R*H'*W' flops in each of the three directions.
    No argument may overlap an output.
    """

    def __init__(
        self,
        images_shape: tuple[int, ...],  # noqa: ARG002 (NumPy reads shapes from the arrays)
        filters: int,  # noqa: ARG002
        kernel: int,
        stride: int,
        padding: int,
    ) -> None:
        self._kernel, self._stride, self._padding = kernel, stride, padding

    def forward(self, images: AnyArray, weights: AnyArray, bias: AnyArray, out: AnyArray) -> None:
        """Write out[n,y,x,k] = bias[k] + sum over c,r,s of images[n, y*stride+r, x*stride+s, c]
        * weights[k,c,r,s], the images bordered by `padding` zeros."""
        out[...] = np.einsum("nyxcrs,kcrs->nyxk", self._windows(images), weights) + bias

    def backward_data(self, gradient: AnyArray, weights: AnyArray, out: AnyArray) -> None:
        """Write the gradient of the images from the gradient (N, H', W', K) of `out`."""
        bordered = np.zeros_like(self._bordered(out))
        _, lines, pixels, _ = gradient.shape
        for r in range(self._kernel):
            for s in range(self._kernel):
                bordered[:, self._taken(r, lines), self._taken(s, pixels)] += np.einsum(
                    "nyxk,kc->nyxc", gradient, weights[:, :, r, s]
                )
        inner = slice(self._padding, -self._padding or None)
        out[...] = bordered[:, inner, inner]

    def backward_weights(
        self, images: AnyArray, gradient: AnyArray, weights_out: AnyArray, bias_out: AnyArray
    ) -> None:
        """Write the gradients of weights and bias from the gradient of `out`.

        The images must be those of the last `forward`: an implementation may keep what it needs.
        """
        weights_out[...] = np.einsum("nyxcrs,nyxk->kcrs", self._windows(images), gradient)
        bias_out[...] = gradient.sum(axis=(0, 1, 2))

    def _bordered(self, images: AnyArray) -> AnyArray:
        border = (self._padding, self._padding)
        return np.pad(images, ((0, 0), border, border, (0, 0)))

    def _windows(self, images: AnyArray) -> AnyArray:
        """Return a view (N, H', W', C, R, R)."""
        size = (self._kernel, self._kernel)
        windows = sliding_window_view(self._bordered(images), size, axis=(1, 2))
        return windows[:, :: self._stride, :: self._stride]

    def _taken(self, tap: int, outputs: int) -> slice:
        return slice(tap, tap + outputs * self._stride, self._stride)
