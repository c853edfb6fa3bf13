"""Dense layers by the matrix product of PyTorch (oneDNN or MKL)."""

from __future__ import annotations

import torch

from vectorized_ops.layout import AnyArray
from vectorized_ops.onednn.arrays import tensor
from vectorized_ops.onednn.gradient import write_gradient


class Dense:
    """See `vectorized_ops.reference.dense.Dense`; arrays in C order."""

    def __init__(self, images: int, inputs: int, outputs: int) -> None:
        """Make the operation for N, I and O."""

    def forward(
        self,
        inputs: AnyArray,
        weights: AnyArray,
        bias: AnyArray | None,
        out: AnyArray,
        relu: bool = False,
    ) -> None:
        """Write inputs @ weights^T + bias, and rectify it."""
        target, given = tensor(out), tensor(inputs)
        factors = given, tensor(weights).to(given.dtype).t()
        if bias is None:
            torch.mm(*factors, out=target)
        else:
            torch.addmm(tensor(bias).to(given.dtype), *factors, out=target)
        if relu:
            target.clamp_(min=0)

    def backward_data(
        self,
        gradient: AnyArray,
        weights: AnyArray,
        out: AnyArray,
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> None:
        """Write gradient @ weights."""
        target, above = tensor(out), tensor(gradient)
        factors = above, tensor(weights).to(above.dtype)
        if add:
            target.addmm_(*factors)
        else:
            torch.mm(*factors, out=target)
        if mask is not None:
            write_gradient(target, target, False, tensor(mask))

    def backward_weights(
        self, inputs: AnyArray, gradient: AnyArray, weights_out: AnyArray, bias_out: AnyArray | None
    ) -> None:
        """Write gradient^T @ inputs and, unless `bias_out` is None, the gradient's sum."""
        above = tensor(gradient)
        tensor(weights_out).copy_(torch.mm(above.t(), tensor(inputs)))
        if bias_out is not None:
            torch.sum(above, dim=0, dtype=torch.float32, out=tensor(bias_out))
