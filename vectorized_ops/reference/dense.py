"""Dense layers, defined."""

from __future__ import annotations

import numpy as np

from vectorized_ops.layout import AnyArray
from vectorized_ops.reference.gradient import write_gradient


class Dense:
    """A matrix product: inputs (N, I), weights (O, I), bias (O,), outputs (N, O), all float32.

    2*N*I*O flops in each of the three directions. No argument may overlap an output.
    """

    def __init__(self, images: int, inputs: int, outputs: int) -> None:
        """Make the operation for N, I and O."""

    @np.errstate(invalid="ignore")
    def forward(
        self,
        inputs: AnyArray,
        weights: AnyArray,
        bias: AnyArray | None,
        out: AnyArray,
        relu: bool = False,
    ) -> None:
        """Write inputs @ weights^T + bias; `relu` makes it max(out, 0), NaN staying NaN."""
        np.matmul(inputs, weights.T, out=out)
        if bias is not None:
            out += bias
        if relu:
            np.maximum(out, 0, out=out)

    @np.errstate(invalid="ignore")
    def backward_data(
        self,
        gradient: AnyArray,
        weights: AnyArray,
        out: AnyArray,
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> None:
        """Write the gradient of the inputs from the gradient (N, O) of the outputs.

        `add` and `mask` as in `vectorized_ops.reference.gradient.write_gradient`.
        """
        write_gradient(gradient @ weights, out, add, mask)

    @np.errstate(invalid="ignore")
    def backward_weights(
        self, inputs: AnyArray, gradient: AnyArray, weights_out: AnyArray, bias_out: AnyArray | None
    ) -> None:
        """Write the gradients of weights and, unless it is None, bias from that of the outputs.

        Images that only fill up a vector must be zero in `gradient` and finite in `inputs`.
        """
        weights_out[...] = gradient.T @ inputs
        if bias_out is not None:
            bias_out[...] = gradient.sum(axis=0)
