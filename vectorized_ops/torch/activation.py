"""The ReLU on its own, and the activation functions behind other operations."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from vectorized_ops.epilogue import IDENTITY, RECTIFIER, Epilogue
from vectorized_ops.numba.kernels.channels_last import activation as kernels
from vectorized_ops.torch._aliases import place_for
from vectorized_ops.torch._gradients import one_by_one
from vectorized_ops.torch._rows import Pass, is_plain, pixelwise, rows_of

_SMOOTH: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "gelu_tanh": partial(functional.gelu, approximate="tanh"),
    "hard_sigmoid": functional.hardsigmoid,
    "hard_swish": functional.hardswish,
    "sigmoid": torch.sigmoid,
    "silu": functional.silu,
    "tanh": torch.tanh,
}


def relu(images: Tensor) -> Tensor:
    """Return max(images, 0) of images (N, C, H, W), NaN where they are.

    `torch.nn.functional.relu` does the work for anything but float32 and bfloat16 on the CPU.
    """
    if images.dim() != 4 or not is_plain(images):
        return functional.relu(images)
    out: Tensor = _rectify(images)
    return out


def applied(epilogue: Epilogue, images: Tensor) -> Tensor:
    """Return what an epilogue makes of images, by PyTorch's own operations."""
    if epilogue == IDENTITY:
        return images
    if epilogue.function != RECTIFIER:
        return _SMOOTH[epilogue.function](images)
    if epilogue.slope:
        return functional.leaky_relu(images, epilogue.slope)
    if epilogue.ceiling < math.inf:
        return functional.hardtanh(images, 0.0, epilogue.ceiling)
    return functional.relu(images)


class _Rectifier(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, images: Tensor) -> Tensor:
        images = pixelwise(images)
        out = torch.empty_like(images)
        Pass([out], [images]).run(kernels.rectify)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    @one_by_one
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (output,) = ctx.saved_tensors
        arriving = pixelwise(gradient)
        out = place_for(arriving, gradient, overwrite=False)
        Pass([out], [rows_of(output)], [arriving]).run(kernels.cut)
        return out


_rectify: Any = _Rectifier.apply


class ReLU(nn.Module):
    """The module of `relu`; it never works in place."""

    def forward(self, images: Tensor) -> Tensor:
        """Return max(images, 0)."""
        return relu(images)
