"""Dense layers, defined."""

from __future__ import annotations

from vectorized_ops.layout import AnyArray


class Dense:
    """A matrix product: inputs (N, I), weights (O, I), bias (O,), outputs (N, O), all float32.

    2*N*I*O flops in each of the three directions. No argument may overlap an output.
    """

    def __init__(self, images: int, inputs: int, outputs: int) -> None:
        """Make the operation for N, I and O."""

    def forward(self, inputs: AnyArray, weights: AnyArray, bias: AnyArray, out: AnyArray) -> None:
        """Write inputs @ weights^T + bias."""
        out[...] = inputs @ weights.T + bias

    def backward_data(self, gradient: AnyArray, weights: AnyArray, out: AnyArray) -> None:
        """Write the gradient of the inputs from the gradient (N, O) of the outputs."""
        out[...] = gradient @ weights

    def backward_weights(
        self, inputs: AnyArray, gradient: AnyArray, weights_out: AnyArray, bias_out: AnyArray
    ) -> None:
        """Write the gradients of weights and bias from the gradient of the outputs."""
        weights_out[...] = gradient.T @ inputs
        bias_out[...] = gradient.sum(axis=0)
