"""Affine functions of each value, by PyTorch's own kernels."""

from __future__ import annotations

from vectorized_ops.layout import AnyArray
from vectorized_ops.onednn.arrays import tensor
from vectorized_ops.onednn.gradient import write_gradient
from vectorized_ops.reference.affine import check_affine


class Affine:
    """See `vectorized_ops.reference.affine.Affine`."""

    def __init__(self, factor: float, offset: float = 0.0) -> None:
        check_affine(factor, offset)
        self._factor, self._offset = factor, offset

    def forward(self, inputs: AnyArray, out: AnyArray) -> None:
        """Write factor * inputs + offset; `out` may be `inputs`."""
        tensor(out).copy_(tensor(inputs) * self._factor + self._offset)

    def backward(
        self, gradient: AnyArray, out: AnyArray, add: bool = False, mask: AnyArray | None = None
    ) -> None:
        """Write factor * gradient; without `add`, `out` may be `gradient`."""
        value = tensor(gradient) * self._factor
        write_gradient(value, tensor(out), add, None if mask is None else tensor(mask))
