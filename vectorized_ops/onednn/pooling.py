"""Max pooling by PyTorch's own kernel."""

from __future__ import annotations

import torch

from vectorized_ops.layout import AnyArray
from vectorized_ops.onednn.arrays import images_tensor
from vectorized_ops.reference.pooling import check_window


class MaxPooling:
    """See `vectorized_ops.reference.pooling.MaxPooling`; arrays in C order."""

    def __init__(self, kernel: int, stride: int) -> None:
        check_window(kernel)
        self._kernel, self._stride = kernel, stride

    def forward(self, images: AnyArray, out: AnyArray, which: AnyArray) -> None:
        """Write the maxima and their places."""
        values, pixels = torch.ops.aten.max_pool2d_with_indices(
            images_tensor(images), [self._kernel] * 2, [self._stride] * 2
        )
        images_tensor(out).copy_(values)
        line, column = pixels // images.shape[2], pixels % images.shape[2]
        top = torch.arange(out.shape[1])[:, None] * self._stride
        left = torch.arange(out.shape[2]) * self._stride
        images_tensor(which).copy_((line - top) * self._kernel + column - left)

    def backward(self, gradient: AnyArray, which: AnyArray, out: AnyArray) -> None:
        """Write the gradient of the images: each cell's goes to the pixel that was largest."""
        place = images_tensor(which).long()
        top = torch.arange(gradient.shape[1])[:, None] * self._stride
        left = torch.arange(gradient.shape[2]) * self._stride
        pixels = (top + place // self._kernel) * out.shape[2] + left + place % self._kernel
        target = images_tensor(out)
        target.copy_(
            torch.ops.aten.max_pool2d_with_indices_backward(
                images_tensor(gradient), target, [self._kernel] * 2, [self._stride] * 2,
                [0, 0], [1, 1], False, pixels,
            )
        )  # fmt: skip
