"""Convolution, defined."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from vectorized_ops.layout import AnyArray
from vectorized_ops.reference.gradient import write_gradient
from vectorized_ops.shapes import ConvolutionShape


class Convolution:
    """A two-dimensional correlation with K filters of R x S taps over C channels in G groups.

    images (N, H, W, C), weights (K, C/G, R, S), bias (K,), out (N, H', W', K), all float32. Filter
    k of group g = k // (K/G) sees the channels from g*C/G on. `shape.flops` in each of the three
    directions. No argument may overlap an output.
    """

    def __init__(self, shape: ConvolutionShape) -> None:
        self._shape = shape

    @np.errstate(invalid="ignore")
    def forward(
        self,
        images: AnyArray,
        weights: AnyArray,
        bias: AnyArray | None,
        out: AnyArray,
        relu: bool = False,
    ) -> None:
        """Write out[n,y,x,k] = bias[k] + sum over c,r,s of weights[k,c,r,s]
        * images[n, y*stride + r*dilation, x*stride + s*dilation, first channel of k's group + c].

        The images are bordered by `padding` zeros. `relu` writes max(out, 0), NaN staying NaN.
        """
        windows = self._windows(images)
        for channels, filters in self._shape.group_slices:
            out[..., filters] = np.einsum(
                "nyxcrs,kcrs->nyxk", windows[:, :, :, channels], weights[filters], optimize=True
            )
        if bias is not None:
            out += bias
        if relu:
            np.maximum(out, 0, out=out)

    @np.errstate(invalid="ignore")
    def backward_data(
        self,
        gradient: AnyArray,
        weights: AnyArray,
        out: AnyArray,
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> None:
        """Write the gradient of the images from the gradient (N, H', W', K) of `out`.

        `add` and `mask` as in `vectorized_ops.reference.gradient.write_gradient`.
        """
        bordered = np.zeros_like(self._bordered(out))
        for r, s in np.ndindex(self._shape.kernel):
            y, x = self._seen(0, r), self._seen(1, s)
            for channels, filters in self._shape.group_slices:
                bordered[:, y, x, channels] += np.einsum(
                    "nyxk,kc->nyxc",
                    gradient[..., filters],
                    weights[filters, :, r, s],
                    optimize=True,
                )
        (top, left), (height, width) = self._shape.padding, out.shape[1:3]
        write_gradient(bordered[:, top : top + height, left : left + width], out, add, mask)

    @np.errstate(invalid="ignore")
    def backward_weights(
        self, images: AnyArray, gradient: AnyArray, weights_out: AnyArray, bias_out: AnyArray | None
    ) -> None:
        """Write the gradients of weights and, unless it is None, bias from the gradient of `out`.

        Images that only fill up a vector must be zero in `gradient` and finite in `images`, which
        must be those of the last `forward`: an implementation may keep what it needs.
        """
        windows = self._windows(images)
        for channels, filters in self._shape.group_slices:
            weights_out[filters] = np.einsum(
                "nyxcrs,nyxk->kcrs",
                windows[:, :, :, channels],
                gradient[..., filters],
                optimize=True,
            )
        if bias_out is not None:
            bias_out[...] = gradient.sum(axis=(0, 1, 2))

    def _bordered(self, images: AnyArray) -> AnyArray:
        y, x = self._shape.padding
        return np.pad(images, ((0, 0), (y, y), (x, x), (0, 0)))

    def _windows(self, images: AnyArray) -> AnyArray:
        """Return a view (N, H', W', C, R, S)."""
        (taps_y, taps_x), (down, right) = self._shape.kernel, self._shape.dilation
        extent = (taps_y - 1) * down + 1, (taps_x - 1) * right + 1
        windows = sliding_window_view(self._bordered(images), extent, axis=(1, 2))
        stride_y, stride_x = self._shape.stride
        return windows[:, ::stride_y, ::stride_x, :, ::down, ::right]

    def _seen(self, axis: int, tap: int) -> slice:
        """Return the lines (axis 0) or columns (1) of the bordered map that a tap meets."""
        first, stride = tap * self._shape.dilation[axis], self._shape.stride[axis]
        outputs = (self._shape.lines, self._shape.pixels)[axis]
        return slice(first, first + (outputs - 1) * stride + 1, stride)
