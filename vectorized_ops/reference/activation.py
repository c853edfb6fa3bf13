"""Activation functions, defined."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import AnyArray


def relu_forward(inputs: AnyArray, out: AnyArray) -> None:
    """Write max(inputs, 0), float32 of any shape; NaN stays NaN. `out` may be `inputs`."""
    np.maximum(inputs, 0, out=out)


def relu_backward(gradient: AnyArray, outputs: AnyArray, out: AnyArray) -> None:
    """Write zero where `outputs` <= 0 and the gradient elsewhere, also where `outputs` is NaN.

    `out` may be `gradient`.
    """
    out[...] = np.where(outputs <= 0, 0, gradient)


def check_rectifier(slope: float, ceiling: float) -> None:
    """Raise OperationError where outputs do not tell on which side of zero their inputs were."""
    if not (0 <= slope < math.inf and ceiling > 0):
        raise OperationError(
            f"a rectifier with slope {slope} and ceiling {ceiling} was asked for: expected a "
            "slope >= 0 and a ceiling > 0; use slope 0.0 and ceiling inf for a plain ReLU"
        )


class Rectifier:
    """Values above zero up to `ceiling`, and those below zero times `slope`.

    ReLU6 (Krizhevsky 2010) has the ceiling 6, the leaky ReLU (Maas et al. 2013) a slope such as
    0.01. float32 arrays of any shape. Raises OperationError for a slope below 0 or a ceiling of 0
    and less.
    """

    def __init__(self, slope: float = 0.0, ceiling: float = math.inf) -> None:
        check_rectifier(slope, ceiling)
        self._slope, self._ceiling = slope, ceiling

    def forward(self, inputs: AnyArray, out: AnyArray) -> None:
        """Write the outputs; NaN stays NaN. `out` may be `inputs`."""
        below = inputs * self._slope if self._slope else np.zeros_like(inputs)
        out[...] = np.where(inputs < 0, below, np.minimum(inputs, self._ceiling))

    @np.errstate(invalid="ignore")
    def backward(
        self, gradient: AnyArray, outputs: AnyArray, out: AnyArray, add: bool = False
    ) -> None:
        """Write, or add to `out`, the gradient of the inputs, told from the outputs.

        It is gradient * slope (zero if the slope is 0) where `outputs` <= 0, zero where they are
        >= a finite ceiling, and the gradient elsewhere, also where they are NaN. Without `add`,
        `out` may be `gradient`.
        """
        below = gradient * self._slope if self._slope else np.zeros_like(gradient)
        clipped = (outputs >= self._ceiling) & math.isfinite(self._ceiling)
        value = np.where(outputs <= 0, below, np.where(clipped, 0, gradient))
        out[...] = out + value if add else value


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
