"""Where branches join and part: concatenation, and one output for several consumers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import relu

from vectorized_ops.numba.kernels.channels_last import activation as kernels
from vectorized_ops.torch._aliases import aliases, arrived, place_for
from vectorized_ops.torch._door import maps
from vectorized_ops.torch._gradients import one_by_one
from vectorized_ops.torch._rows import Pass, is_plain, rows_of


def concatenate(images: Sequence[Tensor]) -> Tensor:
    """Return the channels of all images (N, C, H, W) behind each other.

    `torch.cat` does the work for anything but one type of float32 and bfloat16, on the CPU.
    """
    return join_branches(images, (False,) * len(images))[0]


def join_branches(
    images: Sequence[Tensor], rectify: Sequence[bool], takers: int = 1
) -> tuple[Tensor, ...]:
    """Return the concatenation, of the ReLU of some of the images, once for each consumer."""
    if not _fit_together(images):
        parts = [relu(part) if flag else part for part, flag in zip(images, rectify, strict=True)]
        return (torch.cat(parts, dim=1),) * takers
    results: tuple[Tensor, ...] = _concatenate(tuple(rectify), takers, *images)
    return results


def _fit_together(images: Sequence[Tensor]) -> bool:
    """Tell whether kernels can take these, of one size but for their channels."""
    if len(images) == 0 or not is_plain(*images):
        return False
    first = images[0]
    return all(
        image.dim() == 4 and image.shape[2:] == first.shape[2:] and len(image) == len(first)
        for image in images
    )


def hand_out(images: Tensor, takers: int) -> tuple[Tensor, ...]:
    """Return the images once for each of several consumers."""
    if images.dim() != 4 or not is_plain(images):
        return (images,) * takers
    results: tuple[Tensor, ...] = _distribute(images, takers)
    return results


class _Concatenation(torch.autograd.Function):
    """Of (rectify, takers, *images)."""

    @staticmethod
    def forward(ctx: Any, rectify: tuple[bool, ...], takers: int, *images: Tensor) -> Any:
        number, _, height, width = images[0].shape
        ctx.channels = [image.shape[1] for image in images]
        out = maps((number, sum(ctx.channels), height, width), images[0].dtype)
        parts = torch.split(out, ctx.channels, 1)
        for part, image, flag in zip(parts, images, rectify, strict=True):
            Pass([part], [rows_of(image)]).run(kernels.rectify if flag else kernels.copy)
        ctx.rectify = rectify
        ctx.save_for_backward(out if any(rectify) else None)
        ctx.set_materialize_grads(False)
        return aliases(out, takers)

    @staticmethod
    @one_by_one
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        (output,) = ctx.saved_tensors
        arriving = arrived(gradients)
        results: list[Tensor | None] = [None] * len(ctx.channels)
        if not arriving:
            return None, None, *results
        parts = [torch.split(gradient, ctx.channels, 1) for gradient in arriving]
        outputs = parts[0] if output is None else torch.split(rows_of(output), ctx.channels, 1)
        for i, slopes in enumerate(zip(*parts, strict=True)):
            if ctx.needs_input_grad[2 + i]:
                result = torch.empty_like(slopes[0], memory_format=torch.channels_last)
                if ctx.rectify[i]:
                    Pass([result], [outputs[i]], slopes).run(kernels.cut)
                else:
                    Pass([result], [], slopes).run(kernels.add)
                results[i] = result
        return None, None, *results


class _Distribution(torch.autograd.Function):
    """Of (images, takers)."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, takers: int) -> Any:
        ctx.set_materialize_grads(False)
        return aliases(images, takers)

    @staticmethod
    @one_by_one
    def backward(_ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, None]:
        arriving = arrived(gradients)
        if not arriving:
            return None, None
        first = next(gradient for gradient in gradients if gradient is not None)
        out = place_for(arriving[0], first, overwrite=True)
        Pass([out], [], arriving).run(kernels.add)
        return out, None


_concatenate: Any = _Concatenation.apply
_distribute: Any = _Distribution.apply
