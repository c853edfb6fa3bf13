"""Dense layers by the matrix product of PyTorch (oneDNN or MKL)."""

from __future__ import annotations

import torch

from vectorized_ops.layout import AnyArray
from vectorized_ops.onednn.arrays import tensor


class Dense:
    """See `vectorized_ops.reference.dense.Dense`; arrays in C order."""

    def __init__(self, images: int, inputs: int, outputs: int) -> None:
        """Make the operation for N, I and O."""

    def forward(self, inputs: AnyArray, weights: AnyArray, bias: AnyArray, out: AnyArray) -> None:
        """Write inputs @ weights^T + bias."""
        torch.addmm(tensor(bias), tensor(inputs), tensor(weights).t(), out=tensor(out))

    def backward_data(self, gradient: AnyArray, weights: AnyArray, out: AnyArray) -> None:
        """Write gradient @ weights."""
        torch.mm(tensor(gradient), tensor(weights), out=tensor(out))

    def backward_weights(
        self, inputs: AnyArray, gradient: AnyArray, weights_out: AnyArray, bias_out: AnyArray
    ) -> None:
        """Write gradient^T @ inputs and the sum of `gradient` over the images."""
        torch.mm(tensor(gradient).t(), tensor(inputs), out=tensor(weights_out))
        torch.sum(tensor(gradient), dim=0, out=tensor(bias_out))
