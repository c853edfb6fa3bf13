"""Rectified linear units, defined."""

from __future__ import annotations

import math

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
