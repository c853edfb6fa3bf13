"""Smooth activation functions, defined."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import AnyArray


class _Function(NamedTuple):
    """The values at x, and the slopes there."""

    values: Callable[[AnyArray], AnyArray]
    slopes: Callable[[AnyArray], AnyArray]


def _logistic(x: AnyArray) -> AnyArray:
    power = np.exp(-np.abs(x))
    logistic: AnyArray = np.where(x < 0, power, 1) / (1 + power)
    return logistic


def _logistic_slope(x: AnyArray) -> AnyArray:
    power = np.exp(-np.abs(x))
    slope: AnyArray = power / (1 + power) ** 2
    return slope


def _tanh_slope(x: AnyArray) -> AnyArray:
    slope: AnyArray = 4 * _logistic_slope(2 * x)
    return slope


def _silu(x: AnyArray) -> AnyArray:
    values: AnyArray = x * _logistic(x)
    return values


def _silu_slope(x: AnyArray) -> AnyArray:
    slope: AnyArray = _logistic(x) + x * _logistic_slope(x)
    return slope


def _hard_sigmoid(x: AnyArray) -> AnyArray:
    cut: AnyArray = np.clip(x + 3, 0, 6) / 6
    return cut


def _hard_sigmoid_slope(x: AnyArray) -> AnyArray:
    slope: AnyArray = np.where((x > -3) & (x < 3), 1 / 6, 0).astype(x.dtype)
    return slope


def _hard_swish(x: AnyArray) -> AnyArray:
    return x * _hard_sigmoid(x)


def _hard_swish_slope(x: AnyArray) -> AnyArray:
    slope: AnyArray = np.where(x <= -3, 0, np.where(x >= 3, 1, x / 3 + 0.5)).astype(x.dtype)
    return slope


def _normal(x: AnyArray) -> AnyArray:
    """The normal distribution function, in float64."""
    share: AnyArray = 0.5 * np.vectorize(math.erfc, otypes=[np.float64])(x / -math.sqrt(2))
    return share


def _gelu(x: AnyArray) -> AnyArray:
    return x * _normal(x)


def _gelu_slope(x: AnyArray) -> AnyArray:
    density = np.exp(-np.square(x, dtype=np.float64) / 2) / math.sqrt(2 * math.pi)
    slope: AnyArray = _normal(x) + x * density
    return slope


_GELU_SCALE, _GELU_CUBE = 2 * math.sqrt(2 / math.pi), 0.044715


def _gelu_tanh(x: AnyArray) -> AnyArray:
    return x * _logistic(_GELU_SCALE * x * (1 + _GELU_CUBE * x**2))


def _gelu_tanh_slope(x: AnyArray) -> AnyArray:
    argument = _GELU_SCALE * x * (1 + _GELU_CUBE * x**2)
    growth = _GELU_SCALE * (1 + 3 * _GELU_CUBE * x**2)
    slope: AnyArray = _logistic(argument) + growth * (x * _logistic_slope(argument))
    return slope


FUNCTIONS: Final[dict[str, _Function]] = {
    "gelu": _Function(_gelu, _gelu_slope),
    "gelu_tanh": _Function(_gelu_tanh, _gelu_tanh_slope),
    "hard_sigmoid": _Function(_hard_sigmoid, _hard_sigmoid_slope),
    "hard_swish": _Function(_hard_swish, _hard_swish_slope),
    "sigmoid": _Function(_logistic, _logistic_slope),
    "silu": _Function(_silu, _silu_slope),
    "tanh": _Function(np.tanh, _tanh_slope),
}


"""The functions of `Activation` by name."""


def check_function(name: str) -> None:
    """Raise OperationError for an activation function that is not one of FUNCTIONS."""
    if name not in FUNCTIONS:
        raise OperationError(
            f"unknown activation function {name!r}: expected one of {', '.join(FUNCTIONS)}"
        )


class Activation:
    """A smooth function of each value; float32 arrays of any shape.

    - sigmoid: 1 / (1 + e^-x)
    - tanh
    - silu: x sigmoid(x) (Elfwing et al. 2017; also called swish)
    - gelu: x times the normal distribution function at x (Hendrycks and Gimpel 2016)
    - gelu_tanh: x sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)), their approximation
    - hard_sigmoid: (x + 3) / 6 cut off at 0 and 1 (Howard et al. 2019)
    - hard_swish: x hard_sigmoid(x) (ibid.)

    Raises OperationError for another name.
    """

    def __init__(self, function: str) -> None:
        check_function(function)
        self._function = FUNCTIONS[function]

    @np.errstate(invalid="ignore", over="ignore", under="ignore")
    def forward(self, inputs: AnyArray, out: AnyArray) -> None:
        """Write the outputs; NaN stays NaN. `out` must not overlap `inputs`."""
        out[...] = self._function.values(inputs)

    @np.errstate(invalid="ignore", over="ignore", under="ignore")
    def backward(
        self, gradient: AnyArray, inputs: AnyArray, out: AnyArray, add: bool = False
    ) -> None:
        """Write, or add to `out`, gradient * slope at the inputs.

        Without `add`, `out` may be `gradient`. At the corners of the hard functions slopes are
        those of PyTorch.
        """
        value = gradient * self._function.slopes(inputs)
        out[...] = out + value if add else value
