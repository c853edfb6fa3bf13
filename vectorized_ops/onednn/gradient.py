"""Writes or accumulates gradients of activations, by PyTorch's own kernels."""

from __future__ import annotations

import torch


def write_gradient(
    value: torch.Tensor, out: torch.Tensor, add: bool, mask: torch.Tensor | None
) -> None:
    """See `vectorized_ops.reference.gradient.write_gradient`."""
    total = out.add_(value) if add else value
    if mask is not None:
        torch.ops.aten.threshold_backward(total, mask, 0, grad_input=out)
    elif not add:
        out.copy_(value)
