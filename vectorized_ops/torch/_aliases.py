"""One output with several consumers: their gradients arrive separately and are summed in one pass.

PyTorch adds the gradients of several consumers pairwise: each addition reads two arrays and writes
one.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from vectorized_ops.torch._rows import rows_of


def aliases(out: Tensor, number: int) -> tuple[Tensor, ...]:
    """Return tensors on the memory of `out` that autograd treats as so many different ones.

    If there are several, they must not be written: autograd would not notice the others' change.
    """
    if number == 1:
        return (out,)
    memory = out.untyped_storage(), out.storage_offset(), out.shape, out.stride()
    empty = [torch.empty(0, dtype=out.dtype, device=out.device) for _ in range(number)]
    return tuple(tensor.set_(*memory) for tensor in empty)


def arrived(gradients: Sequence[Tensor | None]) -> list[Tensor]:
    """Return those gradients that there are, as rows."""
    return [rows_of(gradient) for gradient in gradients if gradient is not None]


def place_for(gradient: Tensor, given: Tensor, overwrite: bool) -> Tensor:
    """Return where to write a gradient of the shape of another, which is not needed any more.

    That is the other itself, if `overwrite` allows it or if it is a copy of what was `given`.
    """
    ours = overwrite or gradient is not given
    if ours and gradient.is_contiguous(memory_format=torch.channels_last):
        return gradient
    return torch.empty_like(gradient, memory_format=torch.channels_last)
