"""Convolution fused with the ReLU behind it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from vectorized_ops.numba.kernels.channels_last import activation as kernels
from vectorized_ops.torch._aliases import place_for
from vectorized_ops.torch._ambient import autocast_type
from vectorized_ops.torch._door import address, floats
from vectorized_ops.torch._extents import Extent, pair
from vectorized_ops.torch._gradients import curved
from vectorized_ops.torch._rows import (
    Pass,
    are_parameters,
    is_plain,
    pixelwise,
    rows_of,
    scratch,
)


def conv2d_relu(
    images: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Extent = 1,
    padding: Extent | str = 0,
    dilation: Extent = 1,
    groups: int = 1,
) -> Tensor:
    """Return relu(conv2d(...)) of images (N, C, H, W) and weights (K, C / groups, R, S).

    The convolutions are PyTorch's. The ReLU works in place of their result, and its gradient comes
    in one pass with that of the bias. Under autocast images and weights are rounded to bfloat16
    first. Anything but float32 and bfloat16 on the CPU is PyTorch's alone.
    """
    return rectified_convolution(images, weight, bias, (stride, padding, dilation, groups))


def rectified_convolution(
    images: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    window: tuple[Any, Any, Any, int],
    overwrite: bool = False,
) -> Tensor:
    """Compute `conv2d_relu`; `window` is stride, padding, dilation and groups.

    With `overwrite`, the arriving gradient has no other consumer and may be overwritten.
    """
    *extents, groups = window
    pairs = [pair(extent) for extent in extents]
    images, weight = _as_autocast(images), _as_autocast(weight)
    plain = is_plain(images, weight) and are_parameters(images, bias)
    if images.dim() != 4 or not plain or None in pairs:
        return functional.relu(functional.conv2d(images, weight, bias, *window))
    out: Tensor = _convolve(images, weight, bias, (*pairs, groups), overwrite)
    return out


def _as_autocast(tensor: Tensor) -> Tensor:
    """Return what PyTorch's convolution would be given: under autocast bfloat16 for float32."""
    rounds = autocast_type() == torch.bfloat16 and tensor.dtype == torch.float32
    return tensor.to(torch.bfloat16) if rounds else tensor


class _RectifiedConvolution(torch.autograd.Function):
    """Of (images, weight, bias, window, overwrite)."""

    @staticmethod
    def forward(
        ctx: Any, images: Tensor, weight: Tensor, bias: Tensor | None, *given: Any
    ) -> Tensor:
        ctx.window, ctx.overwrite = given
        images = pixelwise(images)
        out = pixelwise(torch.conv2d(images, weight, bias, *ctx.window))
        Pass([out], [out]).run(kernels.rectify)  # oneDNN's own ReLU makes zero of NaN
        ctx.save_for_backward(images, weight, out)
        return out

    @staticmethod
    @curved
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        images, weight, output = ctx.saved_tensors
        needs, arriving = ctx.needs_input_grad, pixelwise(gradient)
        place = place_for(arriving, gradient, ctx.overwrite)
        bias_gradient = _cut(place, rows_of(output), arriving, needs[2])
        stride, padding, dilation, groups = ctx.window
        images_gradient, weight_gradient, _ = torch.ops.aten.convolution_backward(
            place, images, weight, None, stride, padding, dilation, False, [0, 0], groups,
            [needs[0], needs[1], False],
        )  # fmt: skip
        return images_gradient, weight_gradient, bias_gradient, None, None


_convolve: Any = _RectifiedConvolution.apply


def _cut(place: Tensor, output: Tensor, arriving: Tensor, with_bias: bool) -> Tensor | None:
    """Write the gradient where the output is positive, zero elsewhere; return the bias's."""
    if not with_bias:
        Pass([place], [output], [arriving]).run(kernels.cut)
        return None
    channels = output.shape[1]
    bias_gradient = floats(channels)
    given = Pass([place], [output], [arriving], sums=scratch(output, 1))
    given.run(kernels.cut_and_sum, address(bias_gradient, (channels,)))
    return bias_gradient


class Conv2dReLU(nn.Conv2d):
    """`torch.nn.Conv2d` and the ReLU of its result; padding as numbers and with zeros only."""

    def forward(self, images: Tensor) -> Tensor:
        """Convolve images (N, C, H, W)."""
        if not has_plain_padding(self):
            return functional.relu(super().forward(images))
        return convolve_by(self, images)


def has_plain_padding(layer: nn.Conv2d) -> bool:
    """Tell whether a layer pads with zeros, and by how many pixels."""
    return layer.padding_mode == "zeros" and not isinstance(layer.padding, str)


def convolve_by(layer: nn.Conv2d, images: Tensor, overwrite: bool = False) -> Tensor:
    """Do what the layer does, and take the ReLU of it."""
    window: Any = layer.stride, layer.padding, layer.dilation, layer.groups
    return rectified_convolution(images, layer.weight, layer.bias, window, overwrite)
