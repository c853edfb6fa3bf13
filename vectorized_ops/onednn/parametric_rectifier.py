"""Parametric rectified linear units by PyTorch's own kernels."""

from __future__ import annotations

import torch

from vectorized_ops.layout import AnyArray
from vectorized_ops.onednn.arrays import tensor
from vectorized_ops.onednn.gradient import write_gradient


class ParametricRectifier:
    """See `vectorized_ops.reference.parametric_rectifier.ParametricRectifier`."""

    def forward(self, values: AnyArray, slopes: AnyArray, out: AnyArray) -> None:
        """Write the outputs; `out` may be `values`."""
        given = tensor(values)
        tensor(out).copy_(torch.where(given < 0, given * tensor(slopes), given))

    def backward(
        self,
        values: AnyArray,
        gradient: AnyArray,
        slopes: AnyArray,
        slopes_out: AnyArray,
        out: AnyArray,
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> None:
        """Write the gradients of the slopes and of the values."""
        given, arriving = tensor(values), tensor(gradient)
        below = given < 0
        products = torch.where(below & (arriving != 0), arriving * given, 0.0)
        sums = products.sum(dim=tuple(range(values.ndim - 1)))
        tensor(slopes_out).copy_(sums if len(slopes) == len(sums) else sums.sum())
        result = torch.where(below, arriving * tensor(slopes), arriving)
        write_gradient(result, tensor(out), add, None if mask is None else tensor(mask))
