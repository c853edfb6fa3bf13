"""Activation functions by PyTorch's own kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

import torch

from vectorized_ops.layout import AnyArray
from vectorized_ops.onednn.arrays import tensor
from vectorized_ops.onednn.gradient import write_gradient
from vectorized_ops.reference.activation import check_function, check_rectifier


def relu_forward(inputs: AnyArray, out: AnyArray) -> None:
    """See `vectorized_ops.reference.activation.relu_forward`."""
    torch.clamp(tensor(inputs), min=0, out=tensor(out))


def relu_backward(gradient: AnyArray, outputs: AnyArray, out: AnyArray) -> None:
    """See `vectorized_ops.reference.activation.relu_backward`."""
    torch.ops.aten.threshold_backward(tensor(gradient), tensor(outputs), 0, grad_input=tensor(out))


class Rectifier:
    """See `vectorized_ops.reference.activation.Rectifier`."""

    def __init__(self, slope: float = 0.0, ceiling: float = math.inf) -> None:
        check_rectifier(slope, ceiling)
        self._slope, self._ceiling = slope, ceiling

    def forward(self, inputs: AnyArray, out: AnyArray) -> None:
        """Write the outputs; NaN stays NaN."""
        values, target = tensor(inputs), tensor(out)
        if self._slope:
            values = torch.where(values < 0, self._slope * values, values)
            torch.clamp(values, max=self._ceiling, out=target)
        else:
            torch.clamp(values, min=0, max=self._ceiling, out=target)

    def backward(
        self, gradient: AnyArray, outputs: AnyArray, out: AnyArray, add: bool = False
    ) -> None:
        """Write, or add to `out`, the gradient of the inputs, told from the outputs."""
        arriving, told = tensor(gradient), tensor(outputs)
        if self._slope:
            value = torch.where(told <= 0, self._slope * arriving, arriving)
        else:
            value = torch.ops.aten.threshold_backward(arriving, told, 0)
        if self._ceiling < math.inf:
            value.masked_fill_(told >= self._ceiling, 0)
        write_gradient(value, tensor(out), add, None)


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
