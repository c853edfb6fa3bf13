"""Rectified linear units by PyTorch's own kernels."""

from __future__ import annotations

import torch

from vectorized_ops.layout import AnyArray
from vectorized_ops.onednn.arrays import tensor


def relu_forward(inputs: AnyArray, out: AnyArray) -> None:
    """See `vectorized_ops.reference.activation.relu_forward`."""
    torch.clamp(tensor(inputs), min=0, out=tensor(out))


def relu_backward(gradient: AnyArray, outputs: AnyArray, out: AnyArray) -> None:
    """See `vectorized_ops.reference.activation.relu_backward`."""
    torch.ops.aten.threshold_backward(tensor(gradient), tensor(outputs), 0, grad_input=tensor(out))
