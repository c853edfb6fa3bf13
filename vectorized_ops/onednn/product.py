"""Products of channels with factors of their own, by PyTorch's own kernels."""

from __future__ import annotations

import torch

from vectorized_ops.layout import AnyArray
from vectorized_ops.onednn.arrays import tensor
from vectorized_ops.onednn.gradient import write_gradient


class ChannelProduct:
    """See `vectorized_ops.reference.product.ChannelProduct`."""

    def forward(self, maps: AnyArray, factors: AnyArray, out: AnyArray) -> None:
        """Write the products."""
        torch.mul(tensor(maps), _of_maps(factors), out=tensor(out))

    def backward_maps(
        self,
        gradient: AnyArray,
        factors: AnyArray,
        out: AnyArray,
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> None:
        """Write the gradient of the maps."""
        value = tensor(gradient) * _of_maps(factors)
        write_gradient(value, tensor(out), add, None if mask is None else tensor(mask))

    def backward_factors(
        self,
        gradient: AnyArray,
        maps: AnyArray,
        out: AnyArray,
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> None:
        """Write the gradient of the factors."""
        value = (tensor(gradient) * tensor(maps)).sum(dim=(1, 2))
        write_gradient(value, tensor(out), add, None if mask is None else tensor(mask))


def _of_maps(factors: AnyArray) -> torch.Tensor:
    return tensor(factors)[:, None, None, :]
