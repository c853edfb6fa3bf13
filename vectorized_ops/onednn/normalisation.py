"""Batch normalisation by PyTorch's own kernels."""

from __future__ import annotations

import torch

from vectorized_ops.epilogue import IDENTITY, RELU, Epilogue
from vectorized_ops.layout import AnyArray
from vectorized_ops.onednn.activation import Activation
from vectorized_ops.onednn.arrays import images_tensor, tensor
from vectorized_ops.onednn.rectifier import Rectifier
from vectorized_ops.reference.normalisation import running_gradient

__all__ = ["BatchNormalisation", "running_gradient"]


class BatchNormalisation:
    """See `vectorized_ops.reference.normalisation.BatchNormalisation`; arrays in C order."""

    def __init__(
        self,
        images: int,
        height: int,  # noqa: ARG002 (PyTorch reads shapes from the arrays)
        width: int,  # noqa: ARG002
        channels: int,  # noqa: ARG002
        epsilon: float,
    ) -> None:
        self._images, self._epsilon = images, epsilon

    def statistics(self, values: AnyArray, mean: AnyArray, variance: AnyArray) -> None:
        """Write the mean and the biased variance of each channel of the batch."""
        batch = images_tensor(values[: self._images])
        found = torch.var_mean(batch, dim=(0, 2, 3), correction=0)
        for target, values_found in zip((variance, mean), found, strict=True):
            tensor(target).copy_(values_found)

    def forward(
        self,
        values: AnyArray,
        mean: AnyArray,
        variance: AnyArray,
        scale: AnyArray,
        shift: AnyArray,
        out: AnyArray,
        addend: AnyArray | None = None,
        epilogue: Epilogue = IDENTITY,
    ) -> None:
        """Write (values - mean) / sqrt(variance + epsilon) * scale + shift, plus `addend`."""
        parameters = scale, shift, mean, variance
        result, target = self._normalised(values, *map(tensor, parameters)), images_tensor(out)
        if addend is not None:
            result += images_tensor(addend)
        if epilogue == RELU:
            torch.clamp(result, min=0, out=target)
        elif epilogue == IDENTITY:
            target.copy_(result)
        else:
            epilogue.operation(Rectifier, Activation).forward(_array(result), out)

    def backward(
        self,
        values: AnyArray,
        gradient: AnyArray,
        mean: AnyArray,
        variance: AnyArray,
        scale: AnyArray,
        shift: AnyArray,
        epilogue: Epilogue,
        scale_out: AnyArray,
        shift_out: AnyArray,
        out: AnyArray,
        add: bool = False,
        fixed: bool = False,
    ) -> None:
        """Write the gradients of scale, shift and values, mean and variance being the batch's."""
        batch, arriving = values[: self._images], images_tensor(gradient[: self._images])
        if epilogue != IDENTITY:
            z = self._normalised(batch, *map(tensor, (scale, shift, mean, variance)))
            slopes = torch.empty_like(arriving)
            operation = epilogue.operation(Rectifier, Activation)
            operation.backward(_array(arriving), _array(z), _array(slopes))
            arriving = slopes
        deviation = torch.rsqrt(tensor(variance) + self._epsilon)
        value, scale_sum, shift_sum = torch.ops.aten.native_batch_norm_backward(
            arriving, images_tensor(batch), tensor(scale), tensor(mean), tensor(variance),
            tensor(mean), deviation, not fixed, self._epsilon, [True] * 3,
        )  # fmt: skip
        tensor(scale_out).copy_(scale_sum)
        tensor(shift_out).copy_(shift_sum)
        target = images_tensor(out)
        if add:
            target[: self._images] += value
        else:
            target[: self._images] = value
            target[self._images :] = 0

    def _normalised(
        self,
        values: AnyArray,
        scale: torch.Tensor,
        shift: torch.Tensor,
        mean: torch.Tensor,
        variance: torch.Tensor,
    ) -> torch.Tensor:
        result: torch.Tensor
        result, _, _ = torch.native_batch_norm(
            images_tensor(values), scale, shift, mean, variance, False, 0.0, self._epsilon
        )
        return result


def _array(images: torch.Tensor) -> AnyArray:
    """Return a channels_last tensor (N, C, H, W) as an array (N, H, W, C) on the same memory."""
    array: AnyArray = images.permute(0, 2, 3, 1).numpy()
    return array
