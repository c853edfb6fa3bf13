"""Layer normalisation over channels, by PyTorch's own kernels."""

from __future__ import annotations

import torch

from vectorized_ops.layout import AnyArray
from vectorized_ops.onednn.arrays import tensor
from vectorized_ops.onednn.gradient import write_gradient
from vectorized_ops.reference.scaling import check_per_channel


class LayerNormalisation:
    """See `vectorized_ops.reference.layer_normalisation.LayerNormalisation`; arrays in C order."""

    def __init__(self, epsilon: float) -> None:
        self._epsilon = epsilon

    def forward(self, values: AnyArray, scale: AnyArray, shift: AnyArray, out: AnyArray) -> None:
        """Write the normalised values."""
        check_per_channel(values, scale, shift)
        channels = [values.shape[-1]]
        found, _, _ = torch.native_layer_norm(
            tensor(values).contiguous(), channels, tensor(scale), tensor(shift), self._epsilon
        )
        tensor(out).copy_(found)

    def backward(
        self,
        values: AnyArray,
        gradient: AnyArray,
        scale: AnyArray,
        scale_out: AnyArray,
        shift_out: AnyArray,
        out: AnyArray,
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> None:
        """Write the gradients of scale, shift and values."""
        check_per_channel(values, scale, scale_out, shift_out)
        inputs, factors, channels = tensor(values).contiguous(), tensor(scale), [values.shape[-1]]
        _, mean, inverse = torch.native_layer_norm(inputs, channels, factors, None, self._epsilon)
        value, scale_sum, shift_sum = torch.ops.aten.native_layer_norm_backward(
            tensor(gradient).contiguous(), inputs, channels, mean, inverse, factors,
            torch.zeros_like(factors), [True] * 3,
        )  # fmt: skip
        tensor(scale_out).copy_(scale_sum)
        tensor(shift_out).copy_(shift_sum)
        write_gradient(value, tensor(out), add, None if mask is None else tensor(mask))
