"""Smooth activation functions by PyTorch's own kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

import torch

from vectorized_ops.layout import AnyArray
from vectorized_ops.onednn.arrays import tensor
from vectorized_ops.onednn.gradient import write_gradient
from vectorized_ops.reference.activation import check_function

_Values: TypeAlias = Callable[[torch.Tensor], torch.Tensor]


_Gradient: TypeAlias = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class _Function(NamedTuple):
    """The values at x, and the gradient of x from those that arrive and x."""

    values: _Values
    gradient: _Gradient


_aten = torch.ops.aten


_FUNCTIONS: Final[dict[str, _Function]] = {
    "gelu": _Function(_aten.gelu, _aten.gelu_backward),
    "gelu_tanh": _Function(
        lambda x: _aten.gelu(x, approximate="tanh"),
        lambda above, x: _aten.gelu_backward(above, x, approximate="tanh"),
    ),
    "hard_sigmoid": _Function(_aten.hardsigmoid, _aten.hardsigmoid_backward),
    "hard_swish": _Function(  # whose slope at NaN is 1 in PyTorch, unless it stands in a vector
        _aten.hardswish,
        lambda above, x: torch.where(x.isnan(), x, _aten.hardswish_backward(above, x)),
    ),
    "sigmoid": _Function(
        _aten.sigmoid, lambda above, x: _aten.sigmoid_backward(above, _aten.sigmoid(x))
    ),
    "silu": _Function(_aten.silu, _aten.silu_backward),
    "tanh": _Function(_aten.tanh, lambda above, x: _aten.tanh_backward(above, _aten.tanh(x))),
}


class Activation:
    """See `vectorized_ops.reference.activation.Activation`."""

    def __init__(self, function: str) -> None:
        check_function(function)
        self._function = _FUNCTIONS[function]

    def forward(self, inputs: AnyArray, out: AnyArray) -> None:
        """Write the outputs."""
        tensor(out).copy_(self._function.values(tensor(inputs)))

    def backward(
        self, gradient: AnyArray, inputs: AnyArray, out: AnyArray, add: bool = False
    ) -> None:
        """Write, or add to `out`, the gradient of the inputs."""
        value = self._function.gradient(tensor(gradient), tensor(inputs))
        write_gradient(value, tensor(out), add, None)
