"""Local response normalisation for training: PyTorch's own takes some thirty operations."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from vectorized_ops.numba.kernels.channels_last import lrn as kernels
from vectorized_ops.torch._door import ACTIVATIONS, maps, maps_address
from vectorized_ops.torch._gradients import curved
from vectorized_ops.torch._rows import is_plain, past_caches, pixelwise
from vectorized_ops.torch._team import threads_for


def local_response_norm(
    images: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """Return images * s^-beta, s = k + alpha / size * sum of squares over `size` channels.

    images (N, C, H, W); see `torch.nn.functional.local_response_norm`, which does the work for
    anything but float32 and bfloat16 on the CPU, a size up to 17 and a beta of 1/4, 1/2, 3/4 or 1.
    Of bfloat16 the result is bfloat16, also under autocast.
    """
    return respond(images, size, alpha, beta, k)


def respond(
    images: Tensor, size: int, alpha: float, beta: float, k: float, rectify: bool = False
) -> Tensor:
    """Do so; with `rectify`, to the ReLU of the images."""
    numbers = type(size) is int and all(type(n) in (int, float) for n in (alpha, beta, k))
    if not (images.dim() == 4 and is_plain(images) and numbers and kernels.has_kernel(size, beta)):
        images = functional.relu(images) if rectify else images
        return functional.local_response_norm(images, size, alpha, beta, k)
    out: Tensor = _respond(images, size, alpha, beta, k, rectify)
    return out


class _Response(torch.autograd.Function):
    """Of (images, size, alpha, beta, k, rectify)."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, *given: Any) -> Tensor:
        size, alpha, beta, k, rectify = given
        images = pixelwise(images)
        out, factor = maps(images.shape, images.dtype), alpha / size
        forward, ctx.backward_kernel = kernels.kernels(size // 2, (size - 1) // 2, int(4 * beta))
        ctx.numbers = k, factor, -2 * factor * beta, 0.0 if rectify else math.nan
        forward(*_arguments(ctx.numbers, out, images, None))
        ctx.save_for_backward(images)
        return out

    @staticmethod
    @curved
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        images = pixelwise(*ctx.saved_tensors)
        out, arriving = maps(images.shape, images.dtype), pixelwise(gradient)
        ctx.backward_kernel(*_arguments(ctx.numbers, out, images, arriving))
        return out, *[None] * 5


_respond: Any = _Response.apply


def _arguments(
    numbers: tuple[float, ...], out: Tensor, images: Tensor, gradient: Tensor | None
) -> tuple[Any, Any]:
    """Return what kernels are given: the arguments, and the dtype of the arrays."""
    channels, threads = out.shape[1], threads_for(out.numel())
    bits = struct.unpack("4q", struct.pack("4d", *numbers))
    counts = threads, out.numel() // channels, channels, past_caches([out], [images])
    tensors = out, images, gradient
    places = (0 if each is None else maps_address(each, out.shape, out.dtype) for each in tensors)
    distances, whole, unmasked = [channels] * 3, [0], [0, 0, 0]
    arguments = [*counts, *bits, *places, *distances, *whole, *unmasked]
    return np.array(arguments, np.int64), ACTIVATIONS[out.dtype]


class LocalResponseNorm(nn.LocalResponseNorm):
    """`torch.nn.LocalResponseNorm` by `local_response_norm`."""

    def forward(self, images: Tensor) -> Tensor:
        """Normalise images (N, C, H, W)."""
        return respond_by(self, images)


def respond_by(layer: nn.LocalResponseNorm, images: Tensor, rectify: bool = False) -> Tensor:
    """Do what the layer does; see `respond`."""
    return respond(images, layer.size, layer.alpha, layer.beta, layer.k, rectify)
