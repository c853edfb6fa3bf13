"""Pooling by PyTorch's own kernels."""

from __future__ import annotations

from typing import Any

import torch

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import AnyArray
from vectorized_ops.onednn.arrays import images_tensor, tensor
from vectorized_ops.onednn.gradient import write_gradient
from vectorized_ops.reference.pooling import check_window
from vectorized_ops.shapes import AdaptivePoolingShape, PoolingShape


def check_padding(shape: PoolingShape) -> None:
    """Raise OperationError for padding that PyTorch does not take."""
    if any(2 * border > side for border, side in zip(shape.padding, shape.kernel, strict=True)):
        raise OperationError(
            f"pooling over {shape.kernel[0]}x{shape.kernel[1]} pixels with padding "
            f"{shape.padding[0]}x{shape.padding[1]} was asked of the oneDNN implementation: "
            "expected padding of at most half the kernel; use another implementation"
        )


class MaxPooling:
    """See `vectorized_ops.reference.pooling.MaxPooling`; arrays in C order.

    Raises OperationError for padding above half the kernel as well.
    """

    def __init__(self, shape: PoolingShape) -> None:
        check_window(shape.kernel)
        check_padding(shape)
        self._width, self._columns = shape.width, shape.kernel[1]
        self._window = list(shape.kernel), list(shape.stride), list(shape.padding)
        self._ceil = shape.ceil
        lines, columns = (
            torch.arange(size, dtype=torch.int64, device="cpu")
            for size in (shape.lines, shape.pixels)
        )
        self._top = lines[:, None] * shape.stride[0] - shape.padding[0]
        self._left = columns * shape.stride[1] - shape.padding[1]

    def forward(self, images: AnyArray, out: AnyArray, which: AnyArray) -> None:
        """Write the maxima and their places."""
        values, pixels = torch.ops.aten.max_pool2d_with_indices(
            images_tensor(images), *self._window, [1, 1], self._ceil
        )
        images_tensor(out).copy_(values)
        line, column = pixels // self._width, pixels % self._width
        places = (line - self._top) * self._columns + column - self._left
        images_tensor(which).copy_(places)

    def backward(
        self,
        gradient: AnyArray,
        which: AnyArray,
        out: AnyArray,
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> None:
        """Write the gradient of the images: each cell's goes to the pixel that was largest."""
        place = images_tensor(which).long()
        line, column = self._top + place // self._columns, self._left + place % self._columns
        target = images_tensor(out)
        value = torch.ops.aten.max_pool2d_with_indices_backward(
            images_tensor(gradient), target, *self._window, [1, 1], self._ceil,
            line * self._width + column,
        )  # fmt: skip
        write_gradient(value, target, add, None if mask is None else images_tensor(mask))


class AveragePooling:
    """See `vectorized_ops.reference.pooling.AveragePooling`; arrays in C order.

    Raises OperationError for padding above half the kernel.
    """

    def __init__(self, shape: PoolingShape | AdaptivePoolingShape) -> None:
        self._adaptive = [shape.lines, shape.pixels]
        self._window: tuple[Any, ...] | None = None
        if isinstance(shape, PoolingShape):
            check_padding(shape)
            window = list(shape.kernel), list(shape.stride), list(shape.padding)
            self._window = *window, shape.ceil, shape.counts_padding

    def forward(self, images: AnyArray, out: AnyArray) -> None:
        """Write the means."""
        values = images_tensor(images)
        if self._window is None:
            means = torch.ops.aten._adaptive_avg_pool2d(values, self._adaptive)
        else:
            means = torch.ops.aten.avg_pool2d(values, *self._window)
        images_tensor(out).copy_(means)

    def backward(
        self, gradient: AnyArray, out: AnyArray, add: bool = False, mask: AnyArray | None = None
    ) -> None:
        """Write the gradient of the images: each pixel gets its share of every window's."""
        above, target = images_tensor(gradient), images_tensor(out)
        if self._window is None:
            value = torch.ops.aten._adaptive_avg_pool2d_backward(above, target)
        else:
            value = torch.ops.aten.avg_pool2d_backward(above, target, *self._window, None)
        write_gradient(value, target, add, None if mask is None else images_tensor(mask))


class GlobalAveragePooling:
    """See `vectorized_ops.reference.pooling.GlobalAveragePooling`; arrays in C order."""

    def forward(self, images: AnyArray, out: AnyArray) -> None:
        """Write the means."""
        torch.mean(images_tensor(images), dim=(2, 3), out=tensor(out))

    def backward(
        self, gradient: AnyArray, out: AnyArray, add: bool = False, mask: AnyArray | None = None
    ) -> None:
        """Write the gradient of the images from the gradient (N, C) of the means."""
        target = images_tensor(out)
        share = tensor(gradient)[:, :, None, None] / (out.shape[1] * out.shape[2])
        mask_tensor = None if mask is None else images_tensor(mask)
        write_gradient(share.expand_as(target), target, add, mask_tensor)
