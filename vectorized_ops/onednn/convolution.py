"""Convolution by oneDNN."""

from __future__ import annotations

import numpy as np
import torch

from vectorized_ops.layout import AnyArray
from vectorized_ops.onednn.arrays import images_tensor, tensor
from vectorized_ops.onednn.gradient import write_gradient
from vectorized_ops.reference.convolution import Convolution as Reference
from vectorized_ops.shapes import ConvolutionShape


class Convolution:
    """See `vectorized_ops.reference.convolution.Convolution`; arrays in C order.

    Activations may be of bfloat16, to which weights are then rounded in every call. Windows that
    all lie in the padding are left to the reference: of some of them oneDNN (in PyTorch 2.13)
    crashes.
    """

    def __init__(self, shape: ConvolutionShape) -> None:
        self._of_padding = Reference(shape) if _all_in_padding(shape) else None
        self._stride, self._padding = list(shape.stride), list(shape.padding)
        self._dilation, self._groups = list(shape.dilation), shape.groups

    def forward(
        self,
        images: AnyArray,
        weights: AnyArray,
        bias: AnyArray | None,
        out: AnyArray,
        relu: bool = False,
    ) -> None:
        """Write the correlation of images and weights, plus bias, and rectify it."""
        if self._of_padding is not None:
            self._of_padding.forward(images, weights, bias, out, relu)
            return
        given = images_tensor(images)
        result = torch.conv2d(
            given, tensor(weights).to(given.dtype),
            None if bias is None else tensor(bias).to(given.dtype),
            self._stride, self._padding, self._dilation, self._groups,
        )  # fmt: skip
        if relu:  # oneDNN's own, behind its convolution, makes zero of NaN
            torch.clamp(result, min=0, out=images_tensor(out))
        else:
            images_tensor(out).copy_(result)

    def backward_data(
        self,
        gradient: AnyArray,
        weights: AnyArray,
        out: AnyArray,
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> None:
        """Write the gradient of the images."""
        if self._of_padding is not None:
            self._of_padding.backward_data(gradient, weights, out, add, mask)
            return
        target = images_tensor(out)
        value, _, _ = self._backward(gradient, target, weights, [True, False, False])
        write_gradient(value, target, add, None if mask is None else images_tensor(mask))

    def backward_weights(
        self, images: AnyArray, gradient: AnyArray, weights_out: AnyArray, bias_out: AnyArray | None
    ) -> None:
        """Write the gradients of weights and, unless it is None, bias."""
        if self._of_padding is not None:
            self._of_padding.backward_weights(images, gradient, weights_out, bias_out)
            return
        _, weights, bias = self._backward(
            gradient, images_tensor(images), weights_out, [False, True, bias_out is not None]
        )
        tensor(weights_out).copy_(weights)
        if bias_out is not None:
            tensor(bias_out).copy_(bias)

    def _backward(
        self, gradient: AnyArray, images: torch.Tensor, weights: AnyArray, wanted: list[bool]
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        given = images_tensor(gradient)
        results: tuple[torch.Tensor, torch.Tensor, torch.Tensor] = (
            torch.ops.aten.convolution_backward(
                given, images, tensor(weights).to(given.dtype), [gradient.shape[3]],
                self._stride, self._padding, self._dilation, False, [0, 0], self._groups, wanted,
            )
        )  # fmt: skip
        return results


def _all_in_padding(shape: ConvolutionShape) -> bool:
    """Tell whether no window sees a pixel, along one of the axes or both."""
    extents = (shape.height, shape.lines), (shape.width, shape.pixels)
    for axis, (pixels, windows) in enumerate(extents):
        first = np.arange(windows)[:, None] * shape.stride[axis] - shape.padding[axis]
        seen = first + np.arange(shape.kernel[axis]) * shape.dilation[axis]
        if not ((seen >= 0) & (seen < pixels)).any():
            return True
    return False
