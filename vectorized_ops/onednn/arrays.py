"""Activations of the oneDNN implementation: C order, which PyTorch calls channels_last."""

from __future__ import annotations

import torch

from vectorized_ops.layout import STORED, AnyArray
from vectorized_ops.reference.arrays import (
    activations,
    activations_in,
    activations_size,
    flatten,
    load_images,
    unflatten,
)

__all__ = [
    "activations",
    "activations_in",
    "activations_size",
    "flatten",
    "images_tensor",
    "load_images",
    "tensor",
    "unflatten",
    "use_threads",
]


def tensor(array: AnyArray) -> torch.Tensor:
    """Return a tensor that shares the memory of `array`; that of bfloat16 if it is of uint16."""
    shared = torch.from_numpy(array)
    return shared.view(torch.bfloat16) if array.dtype == STORED else shared


def images_tensor(images: AnyArray) -> torch.Tensor:
    """Return images (N, H, W, C) as a channels_last tensor (N, C, H, W) on the same memory."""
    return tensor(images).permute(0, 3, 1, 2)


def use_threads(threads: int) -> None:
    """Let PyTorch compute with so many threads, in the whole process."""
    torch.set_num_threads(threads)
