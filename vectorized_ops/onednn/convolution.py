"""Convolution by oneDNN."""

from __future__ import annotations

import torch

from vectorized_ops.layout import AnyArray
from vectorized_ops.onednn.arrays import images_tensor, tensor


class Convolution:
    """See `vectorized_ops.reference.convolution.Convolution`; arrays in C order."""

    def __init__(
        self,
        images_shape: tuple[int, ...],  # noqa: ARG002 (oneDNN reads shapes from the arrays)
        filters: int,  # noqa: ARG002
        kernel: int,  # noqa: ARG002
        stride: int,
        padding: int,
    ) -> None:
        self._stride, self._padding = [stride, stride], [padding, padding]

    def forward(self, images: AnyArray, weights: AnyArray, bias: AnyArray, out: AnyArray) -> None:
        """Write the correlation of images and weights, plus bias."""
        result = torch.conv2d(
            images_tensor(images), tensor(weights), tensor(bias), self._stride, self._padding
        )
        images_tensor(out).copy_(result)

    def backward_data(self, gradient: AnyArray, weights: AnyArray, out: AnyArray) -> None:
        """Write the gradient of the images."""
        result, _, _ = self._backward(gradient, images_tensor(out), weights, [True, False, False])
        images_tensor(out).copy_(result)

    def backward_weights(
        self, images: AnyArray, gradient: AnyArray, weights_out: AnyArray, bias_out: AnyArray
    ) -> None:
        """Write the gradients of weights and bias."""
        _, weights, bias = self._backward(
            gradient, images_tensor(images), weights_out, [False, True, True]
        )
        tensor(weights_out).copy_(weights)
        tensor(bias_out).copy_(bias)

    def _backward(
        self, gradient: AnyArray, images: torch.Tensor, weights: AnyArray, mask: list[bool]
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        results: tuple[torch.Tensor, torch.Tensor, torch.Tensor] = (
            torch.ops.aten.convolution_backward(
                images_tensor(gradient), images, tensor(weights), [gradient.shape[3]],
                self._stride, self._padding, [1, 1], False, [0, 0], 1, mask,
            )
        )  # fmt: skip
        return results
