"""Channels times trained factors, by PyTorch's own kernels."""

from __future__ import annotations

import torch

from vectorized_ops.layout import AnyArray
from vectorized_ops.onednn.arrays import tensor
from vectorized_ops.onednn.gradient import write_gradient
from vectorized_ops.reference.scaling import check_per_channel


class ChannelScale:
    """See `vectorized_ops.reference.scaling.ChannelScale`; arrays in C order."""

    def forward(self, values: AnyArray, scale: AnyArray, out: AnyArray) -> None:
        """Write the products."""
        check_per_channel(values, scale)
        torch.mul(tensor(values), tensor(scale), out=tensor(out))

    def backward_scale(self, values: AnyArray, gradient: AnyArray, out: AnyArray) -> None:
        """Write the gradient of the factors."""
        check_per_channel(values, out)
        products = tensor(gradient) * tensor(values)
        tensor(out).copy_(products.sum(dim=tuple(range(values.ndim - 1))))

    def backward(
        self,
        gradient: AnyArray,
        scale: AnyArray,
        out: AnyArray,
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> None:
        """Write the gradient of the values."""
        check_per_channel(gradient, scale)
        value = tensor(gradient) * tensor(scale)
        write_gradient(value, tensor(out), add, None if mask is None else tensor(mask))
