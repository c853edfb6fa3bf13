"""Slices and shuffles of channels, by PyTorch's own kernels."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from vectorized_ops.layout import AnyArray
from vectorized_ops.onednn.arrays import tensor
from vectorized_ops.onednn.gradient import write_gradient
from vectorized_ops.reference.selection import check_chosen, check_selected


class ChannelSelection:
    """See `vectorized_ops.reference.selection.ChannelSelection`; arrays in C order."""

    def __init__(self, chosen: Sequence[int]) -> None:
        check_chosen(chosen)
        self._chosen, self._numbers = (
            chosen,
            torch.tensor(list(chosen), dtype=torch.long, device="cpu"),
        )

    def forward(self, values: AnyArray, out: AnyArray) -> None:
        """Write the chosen channels."""
        check_selected(values, out, self._chosen)
        tensor(out).copy_(tensor(values).index_select(-1, self._numbers))

    def backward(
        self, gradient: AnyArray, out: AnyArray, add: bool = False, mask: AnyArray | None = None
    ) -> None:
        """Write the gradient at the channels chosen, zero at the others."""
        check_selected(out, gradient, self._chosen)
        target = tensor(out)
        value = torch.zeros_like(target).index_copy_(-1, self._numbers, tensor(gradient))
        write_gradient(value, target, add, None if mask is None else tensor(mask))
