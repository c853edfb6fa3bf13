"""Rectified linear units by PyTorch's own kernels."""

from __future__ import annotations

import math

import torch

from vectorized_ops.layout import AnyArray
from vectorized_ops.onednn.arrays import tensor
from vectorized_ops.onednn.gradient import write_gradient
from vectorized_ops.reference.rectifier import check_rectifier


def relu_forward(inputs: AnyArray, out: AnyArray) -> None:
    """See `vectorized_ops.reference.rectifier.relu_forward`."""
    torch.clamp(tensor(inputs), min=0, out=tensor(out))


def relu_backward(gradient: AnyArray, outputs: AnyArray, out: AnyArray) -> None:
    """See `vectorized_ops.reference.rectifier.relu_backward`."""
    torch.ops.aten.threshold_backward(tensor(gradient), tensor(outputs), 0, grad_input=tensor(out))


class Rectifier:
    """See `vectorized_ops.reference.rectifier.Rectifier`."""

    def __init__(self, slope: float = 0.0, ceiling: float = math.inf) -> None:
        check_rectifier(slope, ceiling)
        self._slope, self._ceiling = slope, ceiling

    def forward(self, inputs: AnyArray, out: AnyArray) -> None:
        """Write the outputs; NaN stays NaN."""
        values, target = tensor(inputs), tensor(out)
        if self._slope:
            values = torch.where(values < 0, self._slope * values, values)
            torch.clamp(values, max=self._ceiling, out=target)
        else:
            torch.clamp(values, min=0, max=self._ceiling, out=target)

    def backward(
        self, gradient: AnyArray, outputs: AnyArray, out: AnyArray, add: bool = False
    ) -> None:
        """Write, or add to `out`, the gradient of the inputs, told from the outputs."""
        arriving, told = tensor(gradient), tensor(outputs)
        if self._slope:
            value = torch.where(told <= 0, self._slope * arriving, arriving)
        else:
            value = torch.ops.aten.threshold_backward(arriving, told, 0)
        if self._ceiling < math.inf:
            value.masked_fill_(told >= self._ceiling, 0)
        write_gradient(value, tensor(out), add, None)
