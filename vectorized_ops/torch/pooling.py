"""Pooling for training: argmax indices take one byte each, where PyTorch's take eight."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from vectorized_ops.errors import OperationError
from vectorized_ops.numba.kernels.channels_last import pooling as kernels
from vectorized_ops.numba.kernels.channels_last.rows import padded
from vectorized_ops.shapes import PoolingShape
from vectorized_ops.torch._door import ACTIVATIONS, address, maps, maps_address
from vectorized_ops.torch._extents import Extent, pair
from vectorized_ops.torch._gradients import one_by_one
from vectorized_ops.torch._rows import is_plain, past_caches, pixelwise
from vectorized_ops.torch._team import threads_for


def max_pool2d(
    images: Tensor,
    kernel_size: Extent,
    stride: Extent | None = None,
    padding: Extent = 0,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the largest value of each window of images (N, C, H, W).

    See `torch.nn.functional.max_pool2d`, which does the work for anything but float32 and bfloat16
    on the CPU, and for windows of more than 256 pixels.
    """
    return take_largest(images, kernel_size, stride, padding, ceil_mode)


def avg_pool2d(
    images: Tensor,
    kernel_size: Extent,
    stride: Extent | None = None,
    padding: Extent = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the mean of each window of images (N, C, H, W).

    See `torch.nn.functional.avg_pool2d`, which does the work for anything but float32 and bfloat16
    on the CPU.
    """
    shape = _shape(images, kernel_size, stride, padding, ceil_mode)
    if shape is None or divisor_override == 0:  # PyTorch says so.
        return functional.avg_pool2d(
            images, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        )
    out: Tensor = _average(images, shape, count_include_pad, divisor_override)
    return out


def adaptive_avg_pool2d(images: Tensor, output_size: Any) -> Tensor:
    """Return the mean of each map of images (N, C, H, W), for an output of one pixel.

    `torch.nn.functional.adaptive_avg_pool2d` does the work for other sizes, and for anything but
    float32 and bfloat16 on the CPU.
    """
    is_size = type(output_size) is int or isinstance(output_size, (tuple, list))
    is_one = is_size and output_size in (1, (1, 1), [1, 1]) and pair(output_size) is not None
    if not is_one or images.dim() != 4 or images.numel() == 0:
        return functional.adaptive_avg_pool2d(images, output_size)
    return avg_pool2d(images, (images.shape[2], images.shape[3]))


def take_largest(
    images: Tensor,
    kernel_size: Extent,
    stride: Extent | None = None,
    padding: Extent = 0,
    ceil_mode: bool = False,
    rectify: bool = False,
) -> Tensor:
    """Return the largest values; with `rectify`, those of the ReLU of the images."""
    shape = _shape(images, kernel_size, stride, padding, ceil_mode)
    if shape is None or shape.kernel[0] * shape.kernel[1] > kernels.LARGEST_WINDOW:
        images = functional.relu(images) if rectify else images
        return functional.max_pool2d(images, kernel_size, stride, padding, 1, ceil_mode)
    out: Tensor = _pool(images, shape, rectify)
    return out


def _shape(
    images: Tensor, kernel_size: Extent, stride: Extent | None, padding: Extent, ceil_mode: bool
) -> PoolingShape | None:
    """Return the shape of a pooling that kernels can do, else None."""
    if images.dim() != 4 or not is_plain(images):
        return None
    kernel, border = pair(kernel_size), pair(padding)
    step = kernel if stride is None else pair(stride)
    if kernel is None or border is None or step is None:
        return None
    if 2 * border[0] > kernel[0] or 2 * border[1] > kernel[1]:
        return None  # PyTorch says what is wrong with it.
    try:
        return PoolingShape(images.shape[2], images.shape[3], kernel, step, border, ceil_mode)
    except OperationError:
        return None


class _Largest(torch.autograd.Function):
    """Of (images, shape, rectify)."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, shape: PoolingShape, rectify: bool) -> Tensor:
        images = pixelwise(images)
        out = maps(_pooled(images.shape, shape), images.dtype)
        which = torch.empty(_places(out.shape), dtype=torch.uint8, device="cpu")
        kernels.largest(*_arguments(shape, out, images, images.shape, rectify, which))
        ctx.save_for_backward(which, out if rectify else None)
        ctx.shape, ctx.size = shape, images.shape
        return out

    @staticmethod
    @one_by_one
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        which, output = ctx.saved_tensors
        arriving, out = pixelwise(gradient), maps(ctx.size, gradient.dtype)
        rectify = output is not None
        output = pixelwise(output) if rectify else None
        kernels.winners(*_arguments(ctx.shape, out, arriving, ctx.size, rectify, which, output))
        return out, None, None


class _Means(torch.autograd.Function):
    """Of (images, shape, count_include_pad, divisor_override)."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, shape: PoolingShape, *divisor: Any) -> Tensor:
        images = pixelwise(images)
        out = maps(_pooled(images.shape, shape), images.dtype)
        ctx.shares = _shares(shape, *divisor)
        kernels.means(*_arguments(shape, out, images, images.shape, shares=ctx.shares))
        ctx.shape, ctx.size = shape, images.shape
        return out

    @staticmethod
    @one_by_one
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        arriving, out = pixelwise(gradient), maps(ctx.size, gradient.dtype)
        kernels.spread(*_arguments(ctx.shape, out, arriving, ctx.size, shares=ctx.shares))
        return out, None, None, None


_pool: Any = _Largest.apply
_average: Any = _Means.apply


def _arguments(
    shape: PoolingShape,
    out: Tensor,
    values: Tensor,
    size: torch.Size,
    rectify: bool = False,
    which: Tensor | None = None,
    output: Tensor | None = None,
    shares: tuple[Tensor, Tensor] | tuple[()] = (),
) -> tuple[Any, Any]:
    """Return what kernels are given: the arguments, and the dtype of the arrays.

    These are images of a size, and their windows; one of them is written.
    """
    number, channels, height, width = size
    windows = _pooled(size, shape)
    threads = threads_for(max(out.numel(), values.numel()))
    sizes = (
        threads, number, height, width, channels, shape.lines, shape.pixels, *shape.kernel,
        *shape.stride, *shape.padding,
    )  # fmt: skip
    flags = past_caches([out], [values]), rectify
    both = (windows, size) if out.shape == windows else (size, windows)
    addresses = (
        *(maps_address(each, of, out.dtype) for each, of in zip((out, values), both, strict=True)),
        0 if which is None else address(which, _places(windows), torch.uint8),
        0 if output is None else maps_address(output, windows, out.dtype),
        *(address(share, share.shape) for share in shares),
        *([] if shares else [0, 0]),
    )
    distances = channels, channels, padded(channels)
    whole, unmasked = [0], [0, 0, 0]
    return np.array(
        [*sizes, *flags, *addresses, *distances, *whole, *unmasked], np.int64
    ), ACTIVATIONS[out.dtype]


def _pooled(size: torch.Size, shape: PoolingShape) -> torch.Size:
    return torch.Size((*size[:2], shape.lines, shape.pixels))


def _places(windows: torch.Size) -> tuple[int, int]:
    """Return the size of the places of maxima: a byte for each."""
    number, channels, lines, pixels = windows
    return number * lines * pixels, padded(channels)


@cache
def _shares(
    shape: PoolingShape, padding_counts: bool, divisor: int | None
) -> tuple[Tensor, Tensor]:
    """Return of each line and column of windows the shares of a pixel in their means."""
    lines = _counted(shape.lines, shape.height, shape, 0, padding_counts)
    pixels = _counted(shape.pixels, shape.width, shape, 1, padding_counts)
    if divisor is not None:
        lines, pixels = np.full(shape.lines, divisor), np.ones(shape.pixels)
    down, right = (torch.from_numpy((1 / counts).astype(np.float32)) for counts in (lines, pixels))
    return down, right


def _counted(
    windows: int, extent: int, shape: PoolingShape, axis: int, padding_counts: bool
) -> Any:
    """Return how many lines (axis 0) or columns (1) of each window count."""
    first = np.arange(windows) * shape.stride[axis] - shape.padding[axis]
    last = np.minimum(first + shape.kernel[axis], extent + shape.padding[axis])
    if not padding_counts:
        first, last = np.maximum(first, 0), np.minimum(last, extent)
    return last - first


class MaxPool2d(nn.MaxPool2d):
    """`torch.nn.MaxPool2d` by `max_pool2d`, unless it has a dilation or returns places."""

    def forward(self, images: Tensor) -> Any:
        """Pool images (N, C, H, W)."""
        return pool_by(self, images) if is_simple(self) else super().forward(images)


def is_simple(layer: nn.MaxPool2d) -> bool:
    """Tell whether a layer returns maxima only, and of windows without gaps."""
    return pair(layer.dilation) == (1, 1) and not layer.return_indices


def has_bytes(layer: nn.MaxPool2d) -> bool:
    """Tell whether a layer's places in the window are bytes, as the kernels have them."""
    kernel = pair(layer.kernel_size)
    if kernel is None or not is_simple(layer):
        return False
    return kernel[0] * kernel[1] <= kernels.LARGEST_WINDOW


def pool_by(layer: nn.MaxPool2d, images: Tensor, rectify: bool = False) -> Tensor:
    """Do what the layer does; see `take_largest`."""
    kernel, stride, padding = _window(layer)
    return take_largest(images, kernel, stride, padding, layer.ceil_mode, rectify)


def _window(layer: Any) -> tuple[Extent, Extent, Extent]:
    return layer.kernel_size, layer.stride, layer.padding


class AvgPool2d(nn.AvgPool2d):
    """`torch.nn.AvgPool2d` by `avg_pool2d`."""

    def forward(self, images: Tensor) -> Tensor:
        """Pool images (N, C, H, W)."""
        return avg_pool2d(
            images, *_window(self), self.ceil_mode, self.count_include_pad, self.divisor_override
        )


class AdaptiveAvgPool2d(nn.AdaptiveAvgPool2d):
    """`torch.nn.AdaptiveAvgPool2d` by `adaptive_avg_pool2d`."""

    def forward(self, images: Tensor) -> Tensor:
        """Pool images (N, C, H, W)."""
        return adaptive_avg_pool2d(images, self.output_size)
