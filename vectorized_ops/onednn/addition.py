"""Addition by PyTorch's own kernels."""

from __future__ import annotations

import torch

from vectorized_ops.layout import AnyArray
from vectorized_ops.onednn.arrays import tensor


def add(left: AnyArray, right: AnyArray, out: AnyArray, relu: bool = False) -> None:
    """See `vectorized_ops.reference.addition.add`."""
    target = torch.add(tensor(left), tensor(right), out=tensor(out))
    if relu:
        target.clamp_(min=0)
